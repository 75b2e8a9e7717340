// Small things every chart uses: numbers out of the page, times in words, ticks, SVG, the tooltip,
// and two pieces of shared state (the window of time on screen, the job being followed).

const TYPED = { uint8: Uint8Array, uint16: Uint16Array, int32: Int32Array, float32: Float32Array, float64: Float64Array };

function unpack({ type, base64 }) {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return new TYPED[type](bytes.buffer); // every browser in use is little-endian
}

// Events: "window" (the time span changed), "job" (another job is followed), "theme", "layout".
const shared = Object.assign(new EventTarget(), { from: 0, to: 1, end: 1, job: null });

function followJob(job) {
  shared.job = job === shared.job ? null : job;
  shared.dispatchEvent(new Event("job"));
}

// --- time ------------------------------------------------------------------------------------

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const STEPS = [
  1, 2, 5, 10, 20, 50, 100, 200, 500,
  ...[1, 2, 5, 10, 15, 30].map((n) => n * SECOND),
  ...[1, 2, 5, 10, 15, 30].map((n) => n * MINUTE),
  ...[1, 2, 3, 6, 12].map((n) => n * HOUR),
  ...[1, 2, 5, 10, 20, 50, 100, 200, 500, 1000].map((n) => n * DAY),
];

function timeTicks(from, to, most) {
  const step = STEPS.find((s) => (to - from) / s <= most) ?? STEPS.at(-1);
  const ticks = [];
  for (let t = Math.ceil(from / step) * step; t <= to; t += step) ticks.push(t);
  return { ticks, step };
}

const two = (n) => String(n).padStart(2, "0");

// A moment on a clock: "45 s", "1:30", "12 min", "2 h 15"; the step decides how fine.
function clock(t, step) {
  const decimals = step >= SECOND ? 0 : step >= 100 ? 1 : step >= 10 ? 2 : 3;
  const finest = SECOND / 10 ** decimals;
  t = Math.round(t / finest) * finest;
  if (t === 0) return "0";
  if (t < MINUTE && step < MINUTE) return `${(t / SECOND).toFixed(decimals)} s`;
  if (t < HOUR) {
    const minutes = Math.floor(t / MINUTE);
    if (step % MINUTE === 0) return `${minutes} min`;
    const seconds = ((t - minutes * MINUTE) / SECOND).toFixed(decimals);
    return `${minutes}:${seconds.padStart(decimals ? decimals + 3 : 2, "0")}`;
  }
  if (step % DAY === 0) return `${t / DAY} d`;
  const hours = Math.floor(t / HOUR);
  if (step % HOUR === 0) return `${hours} h`;
  const minutes = two(Math.floor((t % HOUR) / MINUTE));
  if (step % MINUTE === 0) return `${hours}:${minutes} h`;
  const seconds = (((t % MINUTE) / SECOND).toFixed(decimals)).padStart(decimals ? decimals + 3 : 2, "0");
  return `${hours}:${minutes}:${seconds}`;
}

// A length of time in words: "850 ms", "12.3 s", "4 min 5 s", "2 h 15 min".
function duration(ms) {
  if (ms < SECOND) return `${Math.round(ms)} ms`;
  if (ms < 99.95 * SECOND) return `${(ms / SECOND).toFixed(1)} s`;
  const seconds = Math.round(ms / SECOND);
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  const minutes = Math.round(seconds / 60);
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

// --- numbers ---------------------------------------------------------------------------------

function niceTicks(top, most, smallest = 1) {
  const raw = top / most;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = Math.max(smallest, [1, 2, 5, 10].map((n) => n * power).find((s) => s >= raw));
  const ticks = [];
  for (let y = 0; y <= top * 1.0001; y += step) ticks.push(y);
  return ticks;
}

// 0.1, 1, 10, … where they are at least three; else also 2 and 5 times those.
function logTicks(low, high, most) {
  const ticks = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power++) {
    for (const n of [1, 2, 5]) ticks.push(Number(`${n}e${power}`));
  }
  const inside = ticks.filter((tick) => low <= tick && tick <= high * 1.0001);
  const decades = inside.filter((tick) => Number.isInteger(Math.round(1e6 * Math.log10(tick)) / 1e6));
  return inside.length <= most || decades.length < 3 ? inside : decades;
}

// Moments that people know (1 s, 10 s, 1 min, …), at most so many, for an axis of powers.
function logTimeTicks(low, high, most) {
  const apart = Math.log(high / low) / most;
  const ticks = [];
  for (const step of STEPS) {
    if (step < low || step > high) continue;
    if (!ticks.length || Math.log(step / ticks.at(-1)) >= apart) ticks.push(step);
  }
  return { ticks };
}

// Where a value lies between the ends of an axis, 0 to 1.
function axisShare(low, high, log) {
  if (!log) return (value) => (value - low) / (high - low);
  return (value) => Math.log(Math.max(value, low) / low) / Math.log(high / low);
}

function smallestAbove0(lists, otherwise) {
  const least = Math.min(...lists.map((numbers) => numbers.reduce((a, b) => (b > 0 && b < a ? b : a), Infinity)));
  return Number.isFinite(least) ? least : otherwise;
}

// The last place in numbers[low … high - 1] whose value is at most x; low - 1 if there is none.
function lastAtMost(numbers, x, low, high) {
  while (low < high) {
    const middle = (low + high) >> 1;
    if (numbers[middle] <= x) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

// --- elements --------------------------------------------------------------------------------

// The page holds no address at all, not even a namespace: the parser knows it.
const svgNamespace = new DOMParser().parseFromString("<svg></svg>", "text/html").body.firstChild.namespaceURI;

function svg(name, attributes = {}, ...children) {
  const element = document.createElementNS(svgNamespace, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

function html(name, properties = {}, ...children) {
  const element = Object.assign(document.createElement(name), properties);
  element.append(...children);
  return element;
}

// Canvases cannot read CSS variables; a probe element resolves them for the present theme.
const probe = html("i", { hidden: true });
document.body.append(probe);
function resolved(variable) {
  probe.style.color = `var(${variable})`;
  return getComputedStyle(probe).color;
}

const tooltip = document.getElementById("tooltip");

// head: text; colour: CSS colour or null; rows: [[name, value], …]
function showTooltip(x, y, head, colour, rows) {
  const title = html("div", { className: "head" });
  if (colour) title.append(html("i", { style: `background:${colour}` }));
  title.append(head);
  const body = html("tbody", {}, ...rows.map(([name, value, className = ""]) =>
    html("tr", {}, html("th", { scope: "row" }, name), html("td", { className }, value))));
  tooltip.replaceChildren(title, html("table", {}, body));
  tooltip.hidden = false;
  const box = tooltip.getBoundingClientRect();
  const left = x + 16 + box.width > innerWidth - 8 ? x - 16 - box.width : x + 16;
  const top = Math.min(Math.max(8, y + 14), innerHeight - box.height - 8);
  tooltip.style.transform = `translate(${Math.max(8, Math.round(left))}px, ${Math.round(top)}px)`;
}

function hideTooltip() {
  tooltip.hidden = true;
}

function onResize(element, draw) {
  let width = element.clientWidth;
  new ResizeObserver(() => {
    if (element.clientWidth === width) return;
    width = element.clientWidth;
    draw();
  }).observe(element);
  shared.addEventListener("layout", draw);
}
