// SPDX-License-Identifier: Apache-2.0
// Keeps the lists of results up to date while a run is going on, and says what has changed.
"use strict";
(() => {
const lists = document.getElementById("lists"), live = document.getElementById("live");
const EVERY_MS = 2000;
const running = () => [...lists.querySelectorAll("[data-running]")].map(
  cell => cell.parentElement.cells[1].textContent + " " + cell.dataset.running).join("; ");

async function look() {
  let fresh;
  try {
    const answer = await fetch(location.pathname);
    if (!answer.ok) throw new Error(String(answer.status));
    fresh = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("lists");
  } catch (error) {
    live.textContent = "The server has ended: this page is as it was last.";
    return;
  }
  if (fresh.innerHTML !== lists.innerHTML) {
    const focused = lists.contains(document.activeElement) && document.activeElement.getAttribute("href");
    const before = running();
    lists.replaceChildren(...fresh.childNodes);
    if (focused) lists.querySelectorAll("a").forEach(link => { if (link.getAttribute("href") === focused) link.focus(); });
    const now = running();
    if (now !== before) live.textContent = now || "What was running has ended.";
  }
  setTimeout(look, EVERY_MS);
}
if (location.protocol.startsWith("http")) setTimeout(look, EVERY_MS);
})();
