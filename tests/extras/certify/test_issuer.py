# SPDX-License-Identifier: Apache-2.0
"""A logo is a stranger's image: only a small, whole PNG or JPEG gets into a certificate."""

from __future__ import annotations

import base64

import pytest
from pydantic import ValidationError
from small_images import chunk, jpeg, png

from powercut.model.errors import UsageError
from powercut_extras.certify.issuer import (
    LOGO_MAX_BYTES,
    LOGO_MAX_PIXELS,
    Issuer,
    logo_of,
    read_logo,
)


@pytest.mark.parametrize(
    ("data", "kind"), [(png(), "png"), (jpeg(), "jpeg"), (jpeg(frame=0xC2), "jpeg")]
)
def test_a_small_image_is_carried_as_it_is(tmp_path, data, kind):
    path = tmp_path / "logo"
    path.write_bytes(data)
    uri = read_logo(path)
    assert uri == f"data:image/{kind};base64,{base64.b64encode(data).decode()}"
    assert Issuer(logo=uri).logo == uri


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "neither PNG nor JPEG"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "neither PNG nor JPEG"),
        (png()[:-1], "cut off"),
        (png() + b"<script>alert(1)</script>", "cut off"),
        (png().replace(b"IDAT", b"IDAU"), "checksum"),
        (b"\x89PNG\r\n\x1a\n" + chunk(b"IEND", b""), "no whole PNG"),
        (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", b""), "no whole PNG"),
        (png(LOGO_MAX_PIXELS + 1, 1), "2,001 x 1 pixel"),
        (png(0, 5), "0 x 5 pixels"),
        (png(more=chunk(b"tEXt", bytes(LOGO_MAX_BYTES))), "larger than 256 KiB"),
        (jpeg()[:-2], "no whole JPEG"),
        (jpeg(1, LOGO_MAX_PIXELS + 1), "1 x 2,001 pixels"),
        (b"\xff\xd8\xff\xe0\0\0" + bytes(20) + b"\xff\xd9", "no JPEG"),
        (b"\xff\xd8\xff\xd9", "no whole JPEG"),
    ],
)
def test_anything_else_is_refused(tmp_path, data, says):
    path = tmp_path / "logo.png"
    path.write_bytes(data)
    with pytest.raises(UsageError, match=says) as caught:
        read_logo(path)
    assert "PNG or JPEG" in caught.value.hint
    with pytest.raises(ValueError, match=says):
        logo_of(data)


def test_a_file_that_is_not_there_is_said(tmp_path):
    with pytest.raises(UsageError, match="No such file"):
        read_logo(tmp_path / "none.png")


@pytest.mark.parametrize(
    "logo",
    [
        "https://example.invalid/pixel.png",
        "data:image/svg+xml;base64,PHN2Zy8+",
        "data:text/html;base64,PHNjcmlwdD4=",
        "data:image/png;base64,PHNjcmlwdD4=",
        "data:image/png;base64,not base64",
        f"data:image/jpeg;base64,{base64.b64encode(png()).decode()}",
        f'data:image/png;base64,{base64.b64encode(png()).decode()}" onerror="x',
    ],
)
def test_a_strangers_certificate_cannot_bring_another(logo):
    with pytest.raises(ValidationError):
        Issuer(logo=logo)


@pytest.mark.parametrize(
    "text", ["two\nlines", "a\tb", "\x1b[2J", "\u202eEFAS", "x" * 121, "a\u2028b"]
)
def test_a_name_is_one_line_that_shows_as_it_is(text):
    with pytest.raises(ValidationError):
        Issuer(name=text)
    with pytest.raises(ValidationError):
        Issuer(contact=text)
    assert Issuer(name="Örtliche Sparkasse, 情報").name
