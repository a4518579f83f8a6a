// SPDX-License-Identifier: Apache-2.0
// The pictures of a recording: states that were explored, and flushes with the acks they carry.  They
// follow the cut of the time line, and set it.  What is drawn was decided before; text is text.
"use strict";
(() => {
const { data, root, draw, make, ms, count, number, layout, command, go, pick, show, table, heading, nameNow, tellers, source } = window.timeline;
const pictures = data.pictures, ROW = 17, TOP = 22;
let now = data.span;

const sum = (list, index) => list.reduce((all, one) => all + one[index], 0);
const clicked = (element, act) => {
  element.classList.add("clicked");
  element.addEventListener("click", () => { act(); root.scrollIntoView({ block: "start" }); });
};

// Both have the margins and the span of the whole time line above.
function frame(svg, height) {
  const l = layout();
  if (l.narrow) l.left = 62;
  l.at = instant => l.left + (l.right - l.left) * Math.min(Math.max(instant / data.span, 0), 1);
  svg.replaceChildren();
  svg.setAttribute("viewBox", "0 0 " + l.width + " " + height);
  return l;
}
function ends(svg, l, y) {
  draw(svg, "text", { class: "tick", x: l.left, y }, ms(0));
  draw(svg, "text", { class: "tick", x: l.right, y, "text-anchor": "end" }, ms(data.span));
}
// A picture may have thousands of fields: when the cut moves, nothing else does.
const cursors = new Map();
function cursor(svg, l, bottom) {
  cursors.set(svg, [l, draw(svg, "line", { class: "cut here", x1: l.at(now), x2: l.at(now), y1: 4, y2: bottom })]);
}
function moved() {
  for (const [l, line] of cursors.values()) {
    line.setAttribute("x1", l.at(now));
    line.setAttribute("x2", l.at(now));
  }
}

const lacks = (row, narrow) => row === 0 ? "lacks nothing" : row === pictures.rows - 1 ? (narrow ? "lacks all" : "lacks all of it")
  : "lacks up to " + 10 * row + " %";
function rowOf(state) {
  const missing = state.lacks;
  if (!missing || !state.volatile) return 0;
  return missing >= state.volatile ? pictures.rows - 1 : Math.min(Math.ceil(10 * missing / state.volatile), 10);
}

function drawMap(svg, map) {
  const height = TOP + pictures.rows * ROW + 24, l = frame(svg, height), bottom = height - 24;
  const most = Math.max(1, ...map.fields.map(field => field[2]));
  const wide = (map.end - map.begin + 1) / pictures.columns;
  for (let row = 0; row < pictures.rows; row++) {
    const y = TOP + row * ROW;
    draw(svg, "line", { class: "axis", x1: l.left, x2: l.right, y1: y + ROW - .5, y2: y + ROW - .5 });
    if (row % 5 === 0 || row === pictures.rows - 1 || !l.narrow && row === 1)
      draw(svg, "text", { class: "lane", x: l.left - 8, y: y + 12, "text-anchor": "end" }, l.narrow ? ["none", "50 %", "100 %", "all"][[0, 5, 10, 11].indexOf(row)] : lacks(row));
  }
  for (const [column, row, states, lossy, undecided] of map.fields) {
    const begin = map.begin + column * wide, x = l.at(begin), y = TOP + row * ROW;
    const width = Math.max(l.at(begin + wide) - x - .5, 1.5), full = .3 + .7 * Math.log(states + 1) / Math.log(most + 1);
    const group = draw(svg, "g", {});
    draw(group, "title", {}, count(states, "state") + " cut at about " + ms(Math.round(begin + wide / 2)) + " that " + (states === 1 ? "" : "each ")
      + lacks(row) + ": " + (lossy ? number(lossy) + " lost something" : "no loss") + (undecided ? ", " + number(undecided) + " undecided" : ""));
    draw(group, "rect", { class: lossy ? "lossy" : undecided ? "undecided" : "seen", x, y: y + 1, width, height: ROW - 3, "fill-opacity": full.toFixed(2) });
    const sign = lossy ? "✗" : undecided ? "?" : "";
    if (sign) draw(group, "text", { class: "sign", x: x + width / 2, y: y + 12.5, "text-anchor": "middle" }, sign);
    clicked(group, () => go(Math.round(begin + wide / 2)));
  }
  for (const state of data.states) {
    if (!state.policy || state.again) continue;
    const group = draw(svg, "g", {});
    draw(group, "title", {}, state.name + (state.verdict ? ": " + state.verdict + " " + state.kind : "") + " at " + ms(state.instant));
    draw(group, "circle", { class: "kept" + (state.name === data.witness ? " minimised" : ""), cx: l.at(state.instant), cy: TOP + rowOf(state) * ROW + ROW / 2 - .5, r: 5 });
    clicked(group, () => pick(state.name));
  }
  cursor(svg, l, bottom);
  ends(svg, l, bottom + 17);
}

function drawAudit(svg, audit) {
  const lanes = audit.lanes, row = layout().narrow ? 40 : 30, height = TOP + (lanes.length + 1) * row + 24;
  const l = frame(svg, height), bottom = height - 24, acks = TOP + row / 2;
  if (l.narrow) l.left = 4;
  const name = (index, text) => draw(svg, "text", l.narrow ? { class: "lane", x: l.left, y: TOP + index * row + 2 }
    : { class: "lane", x: l.left - 10, y: TOP + index * row + row / 2 + 4, "text-anchor": "end" }, text);
  const columns = (pairs, all, y, style) => {
    const most = Math.max(1, ...pairs.map(pair => pair[1]));
    const path = pairs.map(([column, some]) => "M" + l.at((column + .5) * data.span / all).toFixed(1) + " "
      + (y - 3 - 5 * some / most).toFixed(1) + "v" + (6 + 10 * some / most).toFixed(1)).join("");
    if (path) draw(svg, "path", { class: style, d: path });
  };
  draw(svg, "line", { class: "axis", x1: l.left, x2: l.right, y1: acks, y2: acks });
  name(0, "acknowledged " + number(sum(data.acks, 1)));
  columns(data.acks, 320, acks, "marks");
  lanes.forEach((lane, index) => {
    const y = TOP + (index + 1) * row + row / 2, style = lane.needed ? "needed" : lane.worth === "idle" ? "idle" : "unseen";
    name(index + 1, lane.worth + " " + number(lane.count));
    draw(svg, "line", { class: "axis", x1: l.left, x2: l.right, y1: y, y2: y });
    if (!lane.marks.length) columns(lane.columns, audit.columns, y, style);
    for (const [submitted, done, told, carried] of lane.marks) {
      const path = carried.map(at => "M" + l.at(submitted).toFixed(1) + " " + (y - 6) + "L" + l.at(at).toFixed(1) + " " + (acks + 8)).join("");
      if (path) draw(svg, "path", { class: "carries", d: path });
    }
    for (const [submitted, done, told, carried] of lane.marks) {
      const group = draw(svg, "g", {});
      draw(group, "title", {}, told + (carried.length ? "; carries " + count(carried.length, "ack") : "") + "; at " + ms(submitted));
      draw(group, "rect", { class: style, x: l.at(submitted) - 1, y: y - 7, width: Math.max(l.at(done) - l.at(submitted), 2.5), height: 14 });
      clicked(group, () => go(done));
    }
  });
  cursor(svg, l, bottom);
  ends(svg, l, bottom + 17);
}

function redraw() {
  document.querySelectorAll("svg[data-map]").forEach(svg => {
    const map = pictures.maps[Number(svg.dataset.map)];
    if (map) drawMap(svg, map);
  });
  const svg = document.querySelector("svg[data-audit]");
  if (svg && pictures.audit) drawAudit(svg, pictures.audit);
}

// A server mounts the state, which takes a moment; what it has said is kept.
const seen = new Map();
function tellInside() {
  const name = nameNow(), known = seen.get(name);
  if (known === undefined) {
    const button = make("button", { type: "button", id: "inside" }, "Mount it, and list its files");
    button.addEventListener("click", () => look_inside(name));
    return [heading("Its files"), make("p", {}, button)];
  }
  if (typeof known === "string") return [heading("Its files"), make("p", { role: "status" }, known)];
  const size = n => n === null ? "not there" : count(n, "byte");
  const same = known.files.every(([, there, whole, differs]) => there === whole && !differs);
  return [heading("Its files, after recovery"), make("p", { role: "status" }, same ? "All files are as long as with all writes, and hold the same as far as they were compared (1 MiB of each of 40)." : "Files that differ come first."),
    ...table("files of this state", ["file", "bytes mapped", "with all writes", "difference"],
      known.files.map(([path, there, whole, differs]) => [path, size(there), size(whole), there === whole ? differs ? "its contents" : "none" : there === null ? "is gone" : whole === null ? "is new" : number(there - whole) + " bytes"]), known.left_off),
    ...tellers.contents(known.files, "Bytes as the cut has left them, where recovery has found the file.")];
}
async function look_inside(name) {
  seen.set(name, "Mounting the state in User-Mode Linux ...");
  show();
  try {
    const answer = await fetch(source.replace("window", "state") + "?name=" + encodeURIComponent(name));
    if (!answer.ok) throw new Error("the server says " + answer.status);
    const found = await answer.json();
    seen.set(name, found.problem || found);
  } catch (error) {
    seen.set(name, "It cannot be listed: " + error.message);
  }
  show();
}
if (source && data.mounts) tellers.files = tellInside;

document.querySelectorAll("[data-legend]").forEach(one => { one.hidden = false; });
document.querySelectorAll("button[data-state]").forEach(button => {
  if (!data.states.some(state => state.name === button.dataset.state)) return button.remove();
  button.hidden = false;
  button.addEventListener("click", () => {
    pick(button.dataset.state);
    root.scrollIntoView({ block: "start" });
    document.getElementById("state").focus({ preventScroll: true });
  });
});
document.querySelectorAll(".command[data-copy]").forEach(line => line.replaceWith(
  command(line.querySelector("span").textContent, line.querySelector("code").textContent)));
root.addEventListener("moved", event => { now = event.detail.now; moved(); });
new ResizeObserver(redraw).observe(root);
addEventListener("beforeprint", redraw);
show();
})();
