// One Gantt panel: tasks on a canvas, axis labels in SVG, and finding the task under a point.
//
// Tasks are sorted by row and, within a row, by start; tasks of a row do not overlap, so both the
// first visible task and the one under the pointer are found by halving.

const STRIP = 16; // above the rows: a triangle where each job is complete
const AXIS = 24; // below the rows: time labels

function mixed(colour, other, share) {
  const parse = (text) => (text.startsWith("#") ? [1, 3, 5].map((i) => parseInt(text.slice(i, i + 2), 16)) : text.match(/[\d.]+/g).map(Number));
  const [a, b] = [parse(colour), parse(other)];
  return `rgb(${a.slice(0, 3).map((part, i) => Math.round(part + (b[i] - part) * share)).join(" ")})`;
}

// Colours of the present theme: jobs, the odd stages of jobs a little lighter, and the rest.
function ganttInk(palette) {
  const card = resolved("--card");
  return {
    job: palette,
    oddStage: palette.map((colour) => mixed(colour, card, 0.2)),
    idle: resolved("--idle"),
    line: resolved("--line"),
    faded: resolved("--faded"),
    ink: resolved("--ink"),
    card,
  };
}

function readPanel(packed) {
  const panel = { policy: packed.policy };
  for (const name of ["start", "duration", "job", "stage", "wave", "completion"]) panel[name] = unpack(packed[name]);
  const counts = unpack(packed.tasksInRow);
  panel.rows = counts.length;
  panel.meanDuration = panel.duration.reduce((sum, length) => sum + length, 0) / Math.max(1, panel.duration.length);
  panel.rowStart = new Int32Array(panel.rows + 1);
  counts.forEach((count, row) => { panel.rowStart[row + 1] = panel.rowStart[row] + count; });
  return panel;
}

class GanttView {
  constructor(plot, panel, section) {
    Object.assign(this, { plot, panel, section });
    [this.canvas, this.overlay] = plot.querySelectorAll("canvas");
    this.frame = plot.querySelector("svg.frame");
    this.resize();
  }

  // Whole pixels per row as long as they fit into 280, at most 18 for a handful of rows.
  resize() {
    const { rows } = this.panel;
    this.rowHeight = rows > 280 ? 280 / rows : Math.min(18, Math.floor(280 / rows));
    this.left = this.plot.clientWidth < 560 ? 34 : 56;
    this.width = this.plot.clientWidth - this.left - 12;
    this.height = STRIP + Math.round(rows * this.rowHeight);
    this.plot.style.height = `${this.height + AXIS}px`;
    this.scale = Math.max(1, window.devicePixelRatio || 1);
    for (const canvas of [this.canvas, this.overlay]) {
      canvas.width = Math.round(this.width * this.scale);
      canvas.height = Math.round(this.height * this.scale);
      Object.assign(canvas.style, { left: `${this.left}px`, width: `${this.width}px`, height: `${this.height}px` });
    }
  }

  across(time) { return ((time - shared.from) / (shared.to - shared.from)) * this.width; }
  ticks() { return timeTicks(shared.from, shared.to, Math.max(2, this.width / 84)); }
  timeAt(x) { return shared.from + (x / this.width) * (shared.to - shared.from); }

  // Top and bottom of a row on whole device pixels. A gap between rows opens as tasks become wide
  // enough to be told apart; from afar it would only make the colours pale.
  rowEdges(row) {
    const snap = (y) => Math.round(y * this.scale) / this.scale;
    const widest = this.rowHeight >= 8 ? 2 : this.rowHeight >= 4 ? 1 : 0;
    const taskWidth = (this.panel.meanDuration * this.width) / (shared.to - shared.from);
    const gap = widest * Math.min(1, Math.max(0, (taskWidth - 4) / 6));
    return [STRIP + snap(row * this.rowHeight), STRIP + snap((row + 1) * this.rowHeight) - gap];
  }

  onScreen() {
    const { top, bottom } = this.plot.getBoundingClientRect();
    return bottom > 0 && top < innerHeight;
  }

  draw(ink) {
    const context = this.canvas.getContext("2d");
    context.setTransform(this.scale, 0, 0, this.scale, 0, 0);
    context.clearRect(0, 0, this.width, this.height);
    context.fillStyle = ink.idle;
    context.fillRect(0, STRIP, this.width, this.height - STRIP);
    const ticks = this.ticks();
    context.fillStyle = ink.line;
    for (const time of ticks.ticks) context.fillRect(Math.round(this.across(time)), STRIP, 1, this.height - STRIP);
    let drawn = 0;
    for (let row = 0; row < this.panel.rows; row++) drawn += this.drawRow(context, row, ink);
    this.drawCompletions(context, ink);
    this.canvas.dataset.drawn = drawn;
    this.drawFrame(ticks);
  }

  // Tasks of one stage that touch at this zoom become one rectangle: 20,000 tasks are about 3,000.
  drawRow(context, row, ink) {
    const { start, duration: length, job, stage, rowStart } = this.panel;
    const [top, bottom] = this.rowEdges(row);
    const end = rowStart[row + 1];
    const perPixel = (shared.to - shared.from) / this.width;
    let task = Math.max(rowStart[row], lastAtMost(start, shared.from, rowStart[row], end));
    if (task < end && start[task] + length[task] < shared.from) task++;
    let drawn = 0;
    let colour = null; // setting fillStyle parses a colour: only when it changes
    while (task < end && start[task] <= shared.to) {
      const first = task;
      let until = start[task] + length[task];
      for (task++; task < end && start[task] - until < 0.5 * perPixel && start[task] <= shared.to
        && length[task] < 5 * perPixel && length[first] < 5 * perPixel && job[task] === job[first] && stage[task] === stage[first]; task++) until = start[task] + length[task];
      drawn += task - first;
      if (colour !== this.colourOf(first, ink)) context.fillStyle = colour = this.colourOf(first, ink);
      const from = Math.max(-1, this.across(start[first]));
      const width = Math.min(this.width + 1, this.across(until)) - from;
      // A wide task ends up to a pixel early, so that neighbours can be told apart.
      const seam = task - first > 1 ? 0 : Math.min(1, Math.max(0, (width - 5) / 4));
      context.fillRect(from, top, Math.max(0.6, width - seam), bottom - top);
    }
    return drawn;
  }

  colourOf(task, ink) {
    const job = this.panel.job[task];
    if (shared.job !== null && job !== shared.job) return ink.faded;
    const shades = this.panel.stage[task] & 1 ? ink.oddStage : ink.job;
    return shades[job % shades.length];
  }

  drawCompletions(context, ink) {
    const order = [...this.panel.completion.keys()];
    if (shared.job !== null) order.push(shared.job); // once more, on top
    for (const job of order) {
      const x = this.across(this.panel.completion[job]);
      if (x < -5 || x > this.width + 5) continue;
      context.fillStyle = shared.job === null || shared.job === job ? ink.job[job % ink.job.length] : ink.faded;
      context.beginPath();
      context.moveTo(x - 4.5, 5);
      context.lineTo(x + 4.5, 5);
      context.lineTo(x, 13);
      context.fill();
    }
    if (shared.job !== null) this.drawLifetime(context, ink);
  }

  // From arrival to completion of the followed job: its completion time as a length.
  drawLifetime(context, ink) {
    const from = Math.max(0, this.across(this.section.arrival[shared.job]));
    const to = Math.min(this.width, this.across(this.panel.completion[shared.job]));
    context.fillStyle = ink.ink;
    if (to > from) context.fillRect(from, 2, to - from, 1.5);
  }

  drawFrame({ ticks, step }) {
    const bottom = this.height;
    const marks = ticks.flatMap((time) => {
      const x = this.left + this.across(time);
      const inside = Math.min(Math.max(x, this.left - 4), this.left + this.width - 6);
      return [
        svg("line", { x1: x, x2: x, y1: bottom, y2: bottom + 4 }),
        svg("text", { class: "tick", x: inside, y: bottom + 17, "text-anchor": "middle" }, clock(time, step)),
      ];
    });
    const rowStep = niceTicks(Math.max(1, this.panel.rows - 1), Math.max(2, (this.height - STRIP) / 40))[1] ?? 1;
    for (let row = 0; row < this.panel.rows; row += rowStep) {
      const y = STRIP + (row + 0.5) * this.rowHeight + 4;
      marks.push(svg("text", { x: this.left - 8, y, "text-anchor": "end" }, String(row)));
    }
    if (this.left > 40) {
      const middle = (STRIP + this.height) / 2;
      marks.push(svg("text", { transform: `translate(12 ${middle}) rotate(-90)`, "text-anchor": "middle" }, this.section.rowWord));
    }
    this.frame.replaceChildren(...marks);
  }

  // A thin line at the pointer's time in every panel, and a frame around the task under it.
  drawOverlay(time, task, ink) {
    const context = this.overlay.getContext("2d");
    context.setTransform(this.scale, 0, 0, this.scale, 0, 0);
    context.clearRect(0, 0, this.width, this.height);
    if (time === null) return;
    context.fillStyle = ink.ink;
    context.globalAlpha = 0.5;
    context.fillRect(Math.round(this.across(time)), STRIP, 1, this.height - STRIP);
    context.globalAlpha = 1;
    if (task === null) return;
    const [top, bottom] = this.rowEdges(this.rowOf(task));
    const from = this.across(this.panel.start[task]);
    const width = Math.max(2, this.across(this.panel.start[task] + this.panel.duration[task]) - from);
    context.strokeStyle = ink.card;
    context.lineWidth = 3.5;
    context.strokeRect(from, top, width, bottom - top);
    context.strokeStyle = ink.ink;
    context.lineWidth = 1.5;
    context.strokeRect(from, top, width, bottom - top);
  }

  rowOf(task) { return lastAtMost(this.panel.rowStart, task, 0, this.panel.rows); }

  // What lies at a point of the canvas: { task }, { completed: job } or nothing.
  find(x, y) {
    if (y < STRIP) return this.findCompletion(x);
    const row = Math.floor((y - STRIP) / this.rowHeight);
    if (row < 0 || row >= this.panel.rows || x < 0 || x > this.width) return {};
    const { start, duration: length, rowStart } = this.panel;
    const time = this.timeAt(x);
    const slack = 2 * ((shared.to - shared.from) / this.width);
    const before = lastAtMost(start, time, rowStart[row], rowStart[row + 1]);
    if (before >= rowStart[row] && time < start[before] + length[before]) return { task: before };
    if (before >= rowStart[row] && time < start[before] + length[before] + slack) return { task: before };
    if (before + 1 < rowStart[row + 1] && start[before + 1] - time < slack) return { task: before + 1 };
    return {};
  }

  findCompletion(x) {
    let best = null;
    let distance = 6;
    this.panel.completion.forEach((time, job) => {
      const away = Math.abs(this.across(time) - x);
      if (away < distance) [best, distance] = [job, away];
    });
    return best === null ? {} : { completed: best };
  }
}
