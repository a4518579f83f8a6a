// SPDX-License-Identifier: Apache-2.0
// The time line of a recording: what lies in the page, and from a server more of it.  Everything
// from a recording is put in as text.  Which write is durable when is in the data: instants are
// compared here ("before" is strict), and nothing is judged.
"use strict";
(() => {
const data = JSON.parse(document.getElementById("data").textContent);
const root = document.getElementById("timeline");
const at = id => document.getElementById(id);
const plot = at("plot"), slider = at("instant"), picker = at("state");
const source = root.dataset.windows || "";
const SVG = "http://www.w3.org/2000/svg";
const KINDS = { 1: "write", 2: "zeroes", 3: "discard", 4: "flush" };
const DRAWN = 1500, ROWS = 60;
const NUMBER = 0, LANE = 1, KIND = 2, FUA = 3, SUBMITTED = 4, DONE = 5, DURABLE = 6, LENGTH = 7, TOLD = 8;
const view = { begin: 0, end: data.span };
let now = data.span, chosen = null, plain = "durable", waiting = 0;

const number = n => n.toLocaleString("en");
const count = (n, one, many) => number(n) + " " + (n === 1 ? one : many || one + "s");
const ms = ns => data.imported ? "no. " + number(ns)
  : (ns / 1e6).toLocaleString("en", { minimumFractionDigits: 3, maximumFractionDigits: 3 }) + " ms";
const until = instant => instant === null ? Infinity : instant;

function make(name, attributes, ...inside) {
  const element = document.createElement(name);
  for (const key in attributes) element.setAttribute(key, attributes[key]);
  element.append(...inside);
  return element;
}
function draw(parent, name, attributes, text) {
  const element = document.createElementNS(SVG, name);
  for (const key in attributes) element.setAttribute(key, attributes[key]);
  if (text !== undefined) element.textContent = text;
  parent.append(element);
  return element;
}

// --- what is known of an instant -------------------------------------------------------

const covers = (one, begin, end) => one.begin <= begin && one.end >= end && !one.left_off;
const windowOf = instant => data.windows.find(one => covers(one, instant, instant))
  || data.windows.find(one => one.begin <= instant && one.end >= instant);
const stateNow = () => chosen === null ? null : data.states[chosen];

function known(instant) {
  const one = windowOf(instant);
  if (!one || one.left_off) {
    const column = Math.min(Math.floor(instant * 320 / data.span), 320);
    const [issued, durable, acked] = data.counts[column];
    return { about: true, issued, durable, acked, open: [], flying: [], one };
  }
  const writes = one.requests.filter(r => r[KIND] !== 4 && r[SUBMITTED] < instant);
  const open = writes.filter(r => until(r[DURABLE]) >= instant);
  const flying = one.requests.filter(r => r[SUBMITTED] < instant && until(r[DONE]) >= instant);
  const begun = writes.filter(r => r[SUBMITTED] >= one.begin).length;
  const issued = one.issued + begun;
  const acked = one.acked + one.acks.filter(a => a[0] < instant && a[0] >= one.begin).length
    + one.acks_left_off;
  return { about: false, issued, durable: issued - open.length, acked, open, flying, one };
}

function missingNow(here) {
  const state = stateNow();
  if (state) return new Set(state.drops);
  return new Set(plain === "everything" ? [] : here.open.map(r => r[NUMBER]));
}

// --- the drawing -----------------------------------------------------------------------

function layout() {
  const width = Math.max(root.clientWidth, 280), narrow = width < 640;
  const left = narrow ? 4 : 190, row = narrow ? 38 : 26;
  return { width, narrow, left, right: width - 8, row, top: 26 };
}
const place = (l, instant) => l.left + (l.right - l.left) * (instant - view.begin) / (view.end - view.begin);

function clip(l, name) {
  const letters = Math.floor((l.narrow ? l.right : l.left - 12) / 6.8);
  const end = name.match(/ [\d,]+$/)[0], rest = name.slice(0, -end.length);
  return (rest.length + end.length <= letters ? rest : "…" + rest.slice(rest.length + end.length + 1 - letters)) + end;
}

function lane(l, index, name, full) {
  const y = l.top + index * l.row, middle = y + (l.narrow ? 27 : 13);
  const group = draw(plot, "g", {});
  draw(group, "title", {}, full);
  draw(group, "text", l.narrow ? { class: "lane", x: l.left, y: y + 12 }
    : { class: "lane", x: l.left - 10, y: middle + 4, "text-anchor": "end" }, clip(l, name));
  draw(group, "line", { class: "axis", x1: l.left, x2: l.right, y1: middle, y2: middle });
  return { group, middle };
}

function columns(l, where, pairs, style) {
  const most = Math.max(1, ...pairs.map(pair => pair[1]));
  const width = data.span / 320;
  let path = "";
  for (const [column, some] of pairs) {
    const x = place(l, (column + .5) * width);
    if (x < l.left || x > l.right) continue;
    const height = 7 + 11 * some / most;
    path += "M" + x.toFixed(1) + " " + (where.middle - height / 2).toFixed(1) + "v" + height.toFixed(1);
  }
  if (path) draw(where.group, "path", { class: style, d: path });
}

function bar(l, where, request, gone) {
  const cut = Math.min(until(request[DONE]), data.span), durable = Math.min(until(request[DURABLE]), data.span);
  const begin = Math.max(place(l, request[SUBMITTED]), l.left);
  const done = Math.min(Math.max(place(l, cut), begin), l.right);
  const end = Math.min(Math.max(place(l, durable), begin), l.right);
  const flush = request[KIND] === 4;
  const group = draw(where.group, "g", {});
  draw(group, "title", {}, KINDS[request[KIND]] + " " + request[NUMBER] + (request[FUA] ? " (FUA)" : "")
    + ": " + request[TOLD] + "; " + ms(request[SUBMITTED]) + " to "
    + (request[DONE] === null ? "never completed" : ms(request[DONE])));
  if (!flush && end > done) draw(group, "rect", { class: "volatile", x: done, y: where.middle - 4, width: Math.max(end - done, .5), height: 8 });
  draw(group, "rect", { class: flush ? "flush" : "write", x: begin, y: where.middle - 6, width: Math.max(done - begin, 2), height: 12 });
  if (request[FUA]) draw(group, "path", { class: "fua", d: "M" + (begin - 3) + " " + (where.middle - 11) + "h6l-3 4z" });
  if (gone.has(request[NUMBER])) draw(group, "path", { class: "gone", d: "M" + (begin - 4) + " " + (where.middle - 7) + "l8 14m0 -14l-8 14" });
}

function ackLane(l, here) {
  const where = lane(l, 0, "acknowledged " + number(data.acks.reduce((sum, one) => sum + one[1], 0)), "acknowledgements");
  const one = data.windows.find(each => covers(each, view.begin, view.end));
  const listed = one && !one.acks_left_off ? one.acks.filter(a => a[0] >= view.begin && a[0] <= view.end) : null;
  if (!listed || listed.length > DRAWN) {
    columns(l, where, data.acks, "marks");
    columns(l, where, data.exposed, "exposed");
    return;
  }
  const state = stateNow();
  const lost = n => state !== null && state.lost.some(([first, last]) => n >= first && n <= last);
  for (const [instant, name, exposed] of listed) {
    const x = place(l, instant), gone = lost(name) && instant < now;
    if (exposed) draw(where.group, "rect", { class: "exposed", x, y: where.middle - 3, width: Math.max(Math.min(place(l, instant + exposed), l.right) - x, 1), height: 6 });
    const mark = draw(where.group, "path", { class: gone ? "gone" : "ack", d: gone
      ? "M" + (x - 4) + " " + (where.middle - 7) + "l8 14m0 -14l-8 14" : "M" + x + " " + (where.middle - 8) + "v16" });
    draw(mark, "title", {}, named(name) + " acknowledged at " + ms(instant)
      + (gone ? "; lost in this state" : "") + (exposed ? "; exposed for " + ms(exposed) : ""));
  }
}

function redraw() {
  const l = layout(), bottom = l.top + (data.lanes.length + 1) * l.row;
  plot.setAttribute("viewBox", "0 0 " + l.width + " " + (bottom + 24));
  plot.replaceChildren();
  const here = known(now), gone = missingNow(here);
  draw(plot, "title", {}, "time line: acknowledgements, flushes, and writes by file, with the instant chosen below");
  ackLane(l, here);
  const one = data.windows.find(each => covers(each, view.begin, view.end));
  const listed = one ? one.requests.filter(r => r[SUBMITTED] <= view.end
    && Math.max(until(r[DONE]), r[KIND] === 4 ? 0 : until(r[DURABLE])) >= view.begin) : [];
  const single = one && listed.length <= DRAWN;
  data.lanes.forEach((each, index) => {
    const where = lane(l, index + 1, each.name + " " + number(each.count), each.name);
    if (single) listed.filter(r => r[LANE] === index).forEach(r => bar(l, where, r, gone));
    else columns(l, where, each.columns, each.flush ? "flushes" : "marks");
  });
  for (const share of l.narrow ? [0, 1] : [0, .5, 1])
    draw(plot, "text", { class: "tick", x: l.left + (l.right - l.left) * share, y: bottom + 18,
      "text-anchor": share ? share === 1 ? "end" : "middle" : "start" }, ms(Math.round(view.begin + (view.end - view.begin) * share)));
  for (const [instant, name] of data.node_cuts) {
    const x = place(l, instant);
    if (instant < view.begin || instant > view.end) continue;
    draw(plot, "line", { class: "cut", x1: x, x2: x, y1: 18, y2: bottom });
    draw(plot, "text", { class: "cuttext", x, y: 13, "text-anchor": "middle" }, name);
  }
  if (now >= view.begin && now <= view.end) {
    const x = place(l, now);
    draw(plot, "line", { class: "cut", x1: x, x2: x, y1: 18, y2: bottom });
    draw(plot, "text", { class: "cuttext", x: Math.min(Math.max(x, l.left + 34), l.right - 34), y: 13, "text-anchor": "middle" },
      now === data.span ? "power cut" : "cut here");
  }
  at("legend").hidden = !single;
  at("thinned").textContent = single || data.imported ? "" : "Each mark stands for several requests: zoom in to see them one by one.";
}

// --- the words -------------------------------------------------------------------------

function command(purpose, text) {
  const code = make("code", {}, text), button = make("button", { type: "button", "aria-label": "copy: " + purpose }, "copy");
  button.addEventListener("click", () => {
    const range = document.createRange();
    range.selectNodeContents(code);
    getSelection().removeAllRanges();
    getSelection().addRange(range);
    const copied = document.execCommand("copy");
    button.textContent = copied ? "copied" : "selected";
    setTimeout(() => { button.textContent = "copy"; }, 1500);
  });
  return make("p", { class: "command" }, make("span", { class: "soft" }, purpose + " "), code, " ", button);
}
function table(label, heads, rows, more) {
  const head = make("tr", {}, ...heads.map(text => make("th", { scope: "col" }, text)));
  const body = rows.map(row => make("tr", {}, ...row.map(text => make("td", {}, text))));
  const whole = make("table", {}, make("thead", {}, head), make("tbody", {}, ...body));
  const scroll = make("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": label }, whole);
  return more > 0 ? [scroll, make("p", { class: "soft" }, "and " + number(more) + " more")] : [scroll];
}
const heading = text => make("h3", {}, text);

function tellMissing(here) {
  const state = stateNow();
  if (state) {
    const many = state.lacks;
    if (!many) return [heading("Missing writes"), make("p", {}, "None of what had been issued is missing.")];
    return [heading("Missing writes: " + number(many) + " of " + number(state.volatile) + " that were not durable"),
      ...table("missing writes", ["no.", "file or place", "what is missing", "why it may be lost"],
        state.missing.map(([n, l, text, why]) => [String(n), data.lanes[l].name, text, why]), state.left_off)];
  }
  if (plain === "everything") return [heading("Missing writes"), make("p", {}, "None: in this state all that was issued has survived.")];
  if (here.about) return [heading("Missing writes"), make("p", {}, count(here.issued - here.durable, "write") + ", about. Zoom in to see which.")];
  if (!here.open.length) return [heading("Missing writes"), make("p", {}, "None: everything that was issued was durable.")];
  return [heading("Missing writes: " + number(here.open.length)),
    ...table("missing writes", ["no.", "file or place", "what it holds", "submitted", "completed"],
      here.open.slice(-ROWS).map(r => [String(r[NUMBER]), data.lanes[r[LANE]].name, r[TOLD], ms(r[SUBMITTED]),
        r[DONE] === null ? "never" : r[DONE] >= now ? "in flight" : ms(r[DONE])]), here.open.length - ROWS)];
}

function tellFound() {
  const state = stateNow();
  if (!state || state.name === "cut" && !state.found.length)
    return [heading("What the check found"), make("p", {}, "Not recovered here: type the line below to look inside.")];
  const rows = state.found.map(([name, text]) => [make("dt", {}, name), make("dd", {}, text)]).flat();
  const about = [];
  if (state.verdict) about.push(make("p", {}, make("b", { class: state.verdict }, state.verdict), " " + state.kind + ": " + state.message));
  if (state.confirmed) about.push(make("p", { class: "soft" }, (data.noun === "record" ? "confirmed by the recorded system: " : "asked again, the same was lost: ") + state.confirmed));
  if (state.again) about.push(make("p", { class: "soft" }, "The recovery of this state was cut, too."));
  if (state.moved) about.push(make("p", { class: "soft" }, count(state.moved, "write") + " reached the medium out of order."));
  if (state.name === data.witness) about.push(make("p", {}, "This is the minimised state: see the fewest lost writes below."));
  if (!about.length && !rows.length) about.push(make("p", {}, "Nothing is kept of what was found in this state."));
  return [heading("What the check found"), ...about, make("dl", {}, ...rows)];
}

function nameNow() {
  const state = stateNow();
  return state ? state.name : plain + "@" + (data.start + now);
}
function tellFiles() {
  const state = stateNow();
  if (!state || !state.files.length) return [];
  const size = n => n === null ? "not there" : count(n, "byte");
  const sizes = state.files.some(([, there]) => there !== null);
  const gone = new Map(state.lanes.map(([l, n]) => [data.lanes[l].name, n]));
  const missing = path => [...gone].filter(([name]) => name === path || name.startsWith(path + ",")).reduce((sum, one) => sum + one[1], 0);
  return [heading("Its files"), ...table("files of this state",
    sizes ? ["file", "size", "with all writes", "missing writes"] : ["file", "mapped, with all writes", "missing writes"],
    state.files.map(([path, there, whole]) => [path, ...(sizes ? [size(there)] : []), size(whole), missing(path) ? String(missing(path)) : "none"]), state.files_left_off),
  ...tellContents(state.files, "")];
}
// Where the contents begin to differ, a few bytes before that.
function tellContents(files, about) {
  const differ = files.filter(one => one[3]);
  if (!differ.length) return [];
  return [heading("Where contents differ"), ...about ? [make("p", { class: "soft" }, about)] : [],
    ...table("contents that differ", ["file", "from byte", "in this state", "with all writes"],
      differ.map(([path, , , [at, there, whole]]) => [path, number(at), make("code", {}, there), make("code", {}, whole)]), 0)];
}

const tellers = { files: tellFiles, contents: tellContents };

function named(ack) {
  return data.noun + " " + ack + (ack <= data.names.length ? " (" + data.names[ack - 1] + ")" : "");
}

function tellAck(here) {
  const one = here.one;
  if (!one || one.left_off) return [];
  const last = one.acks.filter(a => a[0] < now).pop();
  if (!last) return [];
  const [instant, name, exposed] = last;
  const open = one.requests.filter(r => r[KIND] !== 4 && r[SUBMITTED] < instant && until(r[DURABLE]) >= instant);
  const lanes = new Map();
  open.forEach(r => lanes.set(r[LANE], (lanes.get(r[LANE]) || 0) + 1));
  const by = [...lanes].map(([l, n]) => data.lanes[l].name + " " + n).join("; ");
  const text = open.length ? count(open.length, "write") + " had been issued and was not durable: " + by + ". What of it the "
    + data.noun + " needs, the check knows." : "everything that had been issued was durable.";
  const bytes = exposed === null ? "" : exposed ? " Its bytes were exposed for " + ms(exposed) + "." : " Its bytes were durable.";
  return [heading("The last acknowledgement"), make("p", {}, named(name) + ", at " + ms(instant) + ", "
    + (now - instant < 1000 ? "just" : ms(now - instant)) + " before: " + text.replace("writes had been issued and was", "writes had been issued and were") + bytes)];
}

function tellCommands() {
  const state = stateNow();
  if (state) return [heading("On the command line"), ...state.commands.map(([purpose, text]) => command(purpose, text))];
  return [heading("On the command line"), command("look inside", data.powercut + " shell " + data.quoted + " " + nameNow())];
}

function readout(here) {
  const about = here.about ? "about " : "";
  const before = now === data.span ? "the cut" : ms(data.span - now) + " before the cut";
  const flights = here.flying.length ? "; " + count(here.flying.length, "request") + " in flight" : "";
  const state = stateNow();  // it knows its number, where columns of many requests do not
  const writes = here.about && state ? count(state.volatile, "write") + " issued and not durable"
    : count(here.issued, "write") + " issued, " + number(here.issued - here.durable) + " of them not durable";
  return ms(now) + " (" + before + "): " + about + count(here.acked, data.noun) + " acknowledged, " + writes + flights;
}

function show() {
  const here = known(now), text = readout(here);
  slider.value = now;
  slider.setAttribute("aria-valuetext", text);
  at("readout").textContent = text;
  picker.value = chosen === null ? plain : String(chosen);
  at("details").replaceChildren(...tellFound(), ...tellers.files(), ...tellMissing(here), ...tellAck(here), ...tellCommands());
  redraw();
  root.dispatchEvent(new CustomEvent("moved", { detail: { now, state: stateNow() } }));
}

// --- what a person does ----------------------------------------------------------------

function events() {
  const one = windowOf(now);
  if (!one) return [];
  const all = [0, data.span];
  for (const r of one.requests) all.push(r[SUBMITTED] + 1, until(r[DONE]) + 1);
  for (const a of one.acks) all.push(a[0] + 1);
  return all.filter(instant => instant >= 0 && instant <= data.span).sort((a, b) => a - b);
}
const acks = () => (windowOf(now) || { acks: [] }).acks.map(a => a[0] + 1).filter(instant => instant <= data.span);

const address = () => history.replaceState(null, "", "#at=" + encodeURIComponent(nameNow()));
function move(instant) {
  now = Math.round(Math.min(Math.max(instant, 0), data.span));
  if (chosen !== null && data.states[chosen].instant !== now) chosen = null;
  if (now < view.begin || now > view.end) {
    const half = (view.end - view.begin) / 2;
    look(now - half, now + half);
  }
  address();
  more();
  show();
}
function step(among, forward) {
  const next = forward ? among.find(instant => instant > now) : among.filter(instant => instant < now).pop();
  if (next !== undefined) move(next);
}
function look(begin, end) {
  const width = Math.min(Math.max(end - begin, 200), data.span);
  view.begin = Math.min(Math.max(begin, 0), data.span - width);
  view.end = view.begin + width;
}
function zoom(factor) {
  const half = (view.end - view.begin) * factor / 2;
  look(now - half, now + half);
  more();
  show();
}
// A server has what the page does not: the window that is looked at.
function more() {
  const begin = Math.floor(Math.max(view.begin, 0)), end = Math.ceil(view.end);
  if (!source || data.windows.some(one => covers(one, begin, end))) return;
  const asked = ++waiting;
  setTimeout(async () => {
    if (asked !== waiting) return;
    try {
      const answer = await fetch(source + "?begin=" + begin + "&end=" + end);
      if (!answer.ok) throw new Error(String(answer.status));
      data.windows = [await answer.json(), ...data.windows.slice(0, 15)];
      if (asked === waiting) show();
    } catch (error) {
      at("thinned").textContent = "The server has not answered: " + error.message;
    }
  }, 120);
}

slider.max = data.span;
slider.addEventListener("input", () => move(Number(slider.value)));
slider.addEventListener("keydown", event => {
  const keys = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: 0, ArrowDown: 0 };
  if (!(event.key in keys)) return;
  event.preventDefault();
  step(events(), keys[event.key] === 1);
});
plot.addEventListener("pointerdown", event => {
  plot.setPointerCapture(event.pointerId);
  drag(event);
});
plot.addEventListener("pointermove", event => { if (event.buttons) drag(event); });
function drag(event) {
  const l = layout(), box = plot.getBoundingClientRect();
  const x = (event.clientX - box.left) * l.width / box.width;
  if (x >= l.left - 4) move(view.begin + (view.end - view.begin) * (x - l.left) / (l.right - l.left));
}
function pick(value) {
  chosen = value in { durable: 1, everything: 1 } ? null : Number(value);
  if (chosen !== null) return move(data.states[chosen].instant);
  plain = value;
  address();
  show();
}
picker.addEventListener("change", () => pick(picker.value));
for (const [id, act] of Object.entries({
  "event-before": () => step(events(), false), "event-after": () => step(events(), true),
  "ack-before": () => step(acks(), false), "ack-after": () => step(acks(), true),
  "zoom-in": () => zoom(.25), "zoom-out": () => zoom(4), "zoom-all": () => { look(0, data.span); more(); show(); },
})) at(id).addEventListener("click", act);
data.states.forEach((state, index) => {
  const text = state.name + (state.verdict ? " " + state.verdict.toLowerCase() + " " + state.kind : "")
    + " at " + ms(state.instant) + " (" + state.policy + ")" + (state.name === data.witness ? ", minimised" : "");
  picker.append(make("option", { value: String(index) }, text));
});
new ResizeObserver(redraw).observe(root);
addEventListener("beforeprint", redraw);

// The page has an address for each state and instant: that of a witness, or of the first loss, without.
const indexOf = name => data.states.findIndex(state => state.name === name);
function visit() {
  const [, name] = location.hash.match(/^#at=(.+)$/) || [], wanted = name ? decodeURIComponent(name) : "";
  const [, kind, instant] = wanted.match(/^(durable|everything)@(\d+)$/) || [];
  const worst = [indexOf(wanted), indexOf(data.witness), data.states.findIndex(state => state.verdict === "LOSSY")].find(index => index >= 0);
  if (kind) { chosen = null; plain = kind; now = Math.min(Math.max(Number(instant) - data.start, 0), data.span); }
  else if (worst !== undefined) { chosen = worst; now = data.states[worst].instant; }
  more();
  show();
}
addEventListener("hashchange", () => { if (location.hash.startsWith("#at=")) visit(); });
root.hidden = false;
visit();
// For the pictures below.
window.timeline = { data, root, draw, make, ms, number, count, layout, command, show, table, heading, nameNow, tellers, source,
  go: instant => { chosen = null; move(instant); }, pick: name => pick(indexOf(name)) };
})();
