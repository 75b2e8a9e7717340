// All Gantt panels of a section together: one window of time, one followed job, every way to move.

const SHORTEST_WINDOW = 20; // milliseconds
const PAGE_SCROLL_REST = 350; // milliseconds after which the wheel zooms instead of scrolling on

function startGantt(body, packed) {
  const section = { ...packed, arrival: unpack(packed.arrival) };
  const end = section.end * 1.012; // room for the triangle of the last job
  const views = packed.panels.map((panel, place) =>
    new GanttView(body.querySelectorAll(".plot")[place], readPanel(panel), section));
  let ink = ganttInk(section.colours);
  let pending = false;
  Object.assign(shared, { from: 0, to: end, end });

  // While something moves only the panels on screen are drawn; the others follow when it rests.
  let rest;
  function drawVisible() {
    pending = false;
    const [visible, hidden] = [true, false].map((wanted) => views.filter((view) => view.onScreen() === wanted));
    for (const view of visible) view.draw(ink);
    for (const view of hidden) view.drawFrame(view.ticks());
    clearTimeout(rest);
    rest = setTimeout(() => hidden.forEach((view) => view.draw(ink)), 150);
    afterDrawing();
  }

  function drawAll() {
    clearTimeout(rest);
    for (const view of views) view.draw(ink);
    afterDrawing();
  }

  function afterDrawing() {
    for (const view of views) view.drawOverlay(null, null, ink);
    body.querySelector(".window").textContent = windowInWords();
    const whole = shared.from <= 0 && shared.to >= shared.end;
    for (const action of ["out", "left", "right", "reset"]) body.querySelector(`[data-action=${action}]`).disabled = whole;
  }

  function redraw() {
    if (!pending) requestAnimationFrame(drawVisible);
    pending = true;
  }

  function windowInWords() {
    const { step } = timeTicks(shared.from, shared.to, 40);
    const finer = Math.min(step, shared.to - shared.from > 20 * SECOND ? SECOND : 100);
    return `${clock(Math.round(shared.from), finer)} to ${clock(Math.round(Math.min(section.end, shared.to)), finer)}`;
  }

  function show(from, to) {
    const span = Math.min(shared.end, Math.max(SHORTEST_WINDOW, to - from));
    shared.from = Math.min(Math.max(0, from), shared.end - span);
    shared.to = shared.from + span;
    hideTooltip();
    redraw();
    shared.dispatchEvent(new Event("window"));
  }

  function zoom(factor, around = (shared.from + shared.to) / 2) {
    const span = Math.min(shared.end, Math.max(SHORTEST_WINDOW, (shared.to - shared.from) * factor));
    const share = (around - shared.from) / (shared.to - shared.from);
    show(around - share * span, around - share * span + span);
  }

  function pan(share) {
    const move = share * (shared.to - shared.from);
    show(shared.from + move, shared.to + move);
  }

  const actions = {
    in: () => zoom(0.5),
    out: () => zoom(2),
    left: () => pan(-0.25),
    right: () => pan(0.25),
    reset: () => show(0, shared.end),
  };
  const keys = {
    "+": "in", "=": "in", "-": "out", _: "out", 0: "reset", Home: "reset", ArrowLeft: "left", ArrowRight: "right",
  };

  body.querySelector(".toolbar").addEventListener("click", (event) => {
    actions[event.target.closest("button")?.dataset.action]?.();
  });
  body.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape" && shared.job !== null) followJob(shared.job);
    const action = keys[event.key];
    if (!action || (!event.target.closest(".plot") && event.target.closest("button") === null)) return;
    actions[action]();
    event.preventDefault();
  });

  function point(view, task, time) {
    for (const other of views) other.drawOverlay(time, other === view ? task : null, ink);
  }

  for (const view of views) startPointer(view, { section, zoom, pan, show, point });
  startJobs(body, section, views);
  shared.addEventListener("job", redraw);
  shared.addEventListener("theme", () => {
    ink = ganttInk(section.colours);
    drawAll();
  });
  onResize(body, () => {
    for (const view of views) view.resize();
    drawAll();
  });
  drawAll();
}

// Buttons that follow a job, and the line of text about it.
function startJobs(body, section, views) {
  const buttons = [...body.querySelectorAll(".jobs button")];
  const facts = body.querySelector(".job-facts");
  const advice = facts.firstElementChild;
  for (const button of buttons) button.addEventListener("click", () => followJob(Number(button.dataset.job)));
  shared.addEventListener("job", () => {
    const { job } = shared;
    for (const button of buttons) button.setAttribute("aria-pressed", String(Number(button.dataset.job) === job));
    facts.replaceChildren(...(job === null ? [advice] : []));
    if (job === null) return;
    facts.append(html("b", {}, `Job ${job}, ${section.jobs[job]}`), `, arrived at ${clock(section.arrival[job], SECOND)}. Complete after `);
    views.forEach((view, place) => {
      const text = `${duration(view.panel.completion[job] - section.arrival[job])} under ${view.panel.policy}`;
      facts.append(html("span", {}, text), place < views.length - 1 ? ", " : ".");
    });
  });
}

function taskTooltip(view, section, task, x, y) {
  const { panel } = view;
  const job = panel.job[task];
  showTooltip(x, y, `Job ${job}, ${section.jobs[job]}`, section.colours[job % section.colours.length], [
    [section.stageWord, String(panel.stage[task])],
    [section.waveWord, section.waves[panel.wave[task]] ?? String(panel.wave[task])],
    [section.rowWord, String(view.rowOf(task))],
    ["start", clock(panel.start[task], 100)],
    ["duration", duration(panel.duration[task])],
  ]);
}

function completionTooltip(view, section, job, x, y) {
  const done = view.panel.completion[job];
  showTooltip(x, y, `Job ${job}, ${section.jobs[job]}`, section.colours[job % section.colours.length], [
    ["complete at", clock(done, 100)],
    ["arrived at", clock(section.arrival[job], 100)],
    ["completion time", duration(done - section.arrival[job])],
  ]);
}

// Mouse, pen and touch on one panel. One pointer drags, two pinch, a click follows a job.
function startPointer(view, { section, zoom, pan, show, point }) {
  const { plot } = view;
  const held = new Map(); // pointer id -> x
  let dragged = 0;
  const inside = (event) => {
    const box = view.canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  const spread = () => {
    const places = [...held.values()];
    return Math.max(8, Math.abs(places[0] - places[1]));
  };

  function hover(event) {
    const [x, y] = inside(event);
    const { task = null, completed = null } = view.find(x, y);
    plot.classList.toggle("on-task", task !== null || completed !== null);
    point(view, task, x >= 0 && x <= view.width ? view.timeAt(x) : null);
    if (task !== null) taskTooltip(view, section, task, event.clientX, event.clientY);
    else if (completed !== null) completionTooltip(view, section, completed, event.clientX, event.clientY);
    else hideTooltip();
  }

  plot.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    if (held.size === 0) dragged = 0;
    held.set(event.pointerId, inside(event)[0]);
  });
  plot.addEventListener("pointermove", (event) => {
    if (!held.has(event.pointerId)) return hover(event);
    const [x] = inside(event);
    const before = held.get(event.pointerId);
    const spreadBefore = held.size === 2 ? spread() : 0;
    held.set(event.pointerId, x);
    if (held.size === 2) {
      const middle = [...held.values()].reduce((a, b) => a + b) / 2;
      zoom(spreadBefore / spread(), view.timeAt(middle));
      dragged = Infinity;
      return;
    }
    dragged += Math.abs(x - before);
    if (dragged < 4) return;
    if (!plot.hasPointerCapture(event.pointerId)) plot.setPointerCapture(event.pointerId);
    plot.classList.add("dragging");
    pan((before - x) / view.width);
  });
  const letGo = (event) => {
    const clicked = held.delete(event.pointerId) && dragged < 4 && event.type === "pointerup";
    plot.classList.remove("dragging");
    if (!clicked) return;
    const { task, completed } = view.find(...inside(event));
    const job = task === undefined ? completed : view.panel.job[task];
    if (job !== undefined) followJob(job);
    else if (shared.job !== null) followJob(shared.job);
  };
  plot.addEventListener("pointerup", letGo);
  plot.addEventListener("pointercancel", letGo);
  plot.addEventListener("pointerleave", () => {
    point(view, null, null);
    hideTooltip();
  });
  plot.addEventListener("dblclick", (event) => zoom(0.4, view.timeAt(inside(event)[0])));
  startWheel(view, inside, { zoom, pan });
}

// A wheel that is scrolling the page goes on scrolling it; one that starts on the chart zooms.
// Zooming out of the whole picture also scrolls, so nobody is caught in the chart.
function startWheel(view, inside, { zoom, pan }) {
  view.plot.addEventListener("wheel", (event) => {
    const scrolling = performance.now() - shared.scrolledAt < PAGE_SCROLL_REST;
    const whole = shared.from <= 0 && shared.to >= shared.end;
    const pinching = event.ctrlKey || event.metaKey;
    if (!pinching && (scrolling || (whole && event.deltaY > 0))) return;
    event.preventDefault();
    const lines = event.deltaMode === 1 ? 20 : 1;
    const sideways = event.shiftKey ? event.deltaX || event.deltaY : event.deltaX;
    if (Math.abs(sideways) > Math.abs(event.deltaY) || event.shiftKey) pan((sideways * lines) / view.width);
    else zoom(Math.exp(Math.max(-60, Math.min(60, event.deltaY * lines)) * (pinching ? 0.01 : 0.005)), view.timeAt(inside(event)[0]));
  }, { passive: false });
}
