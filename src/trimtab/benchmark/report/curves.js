// Step curves, one SVG path per policy: completion times, jobs in the system, the course of a training.

const MARGIN = { left: 46, right: 14, top: 30, bottom: 44 };

function startCurves(area, section, policies) {
  const style = new Map(policies.map((policy) => [policy.name, policy]));
  const curves = section.curves.map((curve) => ({
    ...curve,
    ...style.get(curve.policy),
    x: unpack(curve.x),
    y: unpack(curve.y),
    jobX: curve.jobX && unpack(curve.jobX),
    shown: true,
  }));
  const { reference } = section;
  const endX = Math.max(1, ...curves.map((curve) => curve.x.at(-1)));
  const startX = section.xLog ? Math.min(endX / 2, smallestAbove0(curves.map((curve) => curve.x), endX)) : 0;
  const most = Math.max(
    reference && !reference.upright ? reference.value : 0,
    ...curves.map((curve) => curve.y.reduce((a, b) => Math.max(a, b), 0)),
  );
  const topY = section.percent ? 1 : section.decimals ? most || 1 : Math.max(1, most);
  const bottomY = section.yLog ? smallestAbove0(curves.map((curve) => curve.y), topY) / 1.15 : 0;
  let width, height, pointer = null; // pointer: where values are read, in milliseconds
  let marks; // what changes with the pointer and the followed job
  let band; // the part of the time axis that the Gantt charts show

  const shareOfX = axisShare(startX, endX, section.xLog);
  const shareOfY = axisShare(bottomY, topY * (section.yLog ? 1.15 : 1.03), section.yLog);
  const xAtShare = (share) => (section.xLog ? startX * (endX / startX) ** share : share * endX);
  const across = (x) => MARGIN.left + shareOfX(x) * (width - MARGIN.left - MARGIN.right);
  const up = (y) => height - MARGIN.bottom - shareOfY(y) * (height - MARGIN.top - MARGIN.bottom);
  const valueAt = (curve, x) => {
    const place = lastAtMost(curve.x, x, 0, curve.x.length);
    return place < 0 ? 0 : curve.y[place];
  };
  const told = (y) => (section.percent ? `${(100 * y).toFixed(1)} %` : y.toFixed(section.decimals));

  function stepPath(curve) {
    let x = across(curve.x[0]);
    let y = up(curve.y[0]);
    let path = `M${x.toFixed(1)} ${y.toFixed(1)}`;
    for (let i = 1; i < curve.x.length; i++) {
      const nextX = across(curve.x[i]);
      const nextY = up(curve.y[i]);
      const last = i === curve.x.length - 1;
      if (!last && nextX - x < 0.3 && Math.abs(nextY - y) < 0.3) continue; // below a pixel
      path += `H${nextX.toFixed(1)}V${nextY.toFixed(1)}`;
      [x, y] = [nextX, nextY];
    }
    return section.percent ? `${path}H${across(endX).toFixed(1)}` : path;
  }

  // What was measured once is a point.
  function line(curve) {
    if (curve.x.length === 1 && !section.percent) {
      const point = dot(curve, curve.x[0], 4);
      point.setAttribute("data-policy", curve.policy);
      return point;
    }
    return svg("path", {
      "data-policy": curve.policy,
      d: stepPath(curve),
      style: `stroke:${curve.colour}`,
      "stroke-dasharray": curve.dashes.map((length) => 2 * length).join(" "),
    });
  }

  function axes() {
    const group = svg("g");
    const yTicks = section.percent ? [0, 0.25, 0.5, 0.75, 1]
      : section.yLog ? logTicks(bottomY, topY, 6) : niceTicks(topY, 6, section.decimals ? 0 : 1);
    const ground = up(bottomY);
    group.append(svg("line", { class: "base", x1: MARGIN.left, x2: width - MARGIN.right, y1: ground, y2: ground }));
    for (const y of yTicks) {
      if (y) group.append(svg("line", { class: "grid", x1: MARGIN.left, x2: width - MARGIN.right, y1: up(y), y2: up(y) }));
      const label = section.percent ? `${100 * y} %` : String(Number(y.toPrecision(6)));
      group.append(svg("text", { x: MARGIN.left - 8, y: up(y) + 4, "text-anchor": "end" }, label));
    }
    const room = Math.max(2, (width - MARGIN.left) / 74);
    const { ticks, step } = section.xLog ? logTimeTicks(startX, endX, room) : timeTicks(0, endX, room);
    for (const x of ticks) {
      group.append(svg("line", { class: "base", x1: across(x), x2: across(x), y1: ground, y2: ground + 4 }));
      group.append(svg("text", { class: "tick", x: across(x), y: ground + 18, "text-anchor": "middle" }, clock(x, step ?? x)));
    }
    group.append(svg("text", { class: "label", x: 0, y: 12 }, section.yLabel));
    group.append(svg("text", { class: "label", x: (MARGIN.left + width - MARGIN.right) / 2, y: height - 4, "text-anchor": "middle" }, section.xLabel));
    return group;
  }

  // A limit and its name, where the line meets the edge of the chart.
  function referenceLine() {
    const group = svg("g");
    if (!reference) return group;
    const at = reference.upright ? across(reference.value) : up(reference.value);
    const ends = reference.upright
      ? { x1: at, x2: at, y1: MARGIN.top, y2: up(bottomY) }
      : { x1: MARGIN.left, x2: width - MARGIN.right, y1: at, y2: at };
    const place = reference.upright
      ? { x: at + 6, y: up(bottomY) - 8 }
      : { x: width - MARGIN.right, y: at - 5, "text-anchor": "end" };
    group.append(svg("line", { class: "limit", ...ends }), svg("text", { class: "limit", ...place }, reference.label));
    return group;
  }

  function draw() {
    width = area.clientWidth;
    height = area.clientHeight;
    const series = svg("g", { class: "series" }, ...curves.filter((curve) => curve.shown).map(line));
    band = svg("rect", { class: "band", y: MARGIN.top, height: height - MARGIN.top - MARGIN.bottom });
    marks = svg("g");
    area.replaceChildren(svg("svg", { viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" }, band, axes(), series, referenceLine(), marks));
    drawBand();
    drawMarks();
  }

  function drawBand() {
    const whole = shared.from <= 0 && shared.to >= shared.end;
    band.style.display = section.onTheClock && !whole ? "" : "none";
    band.setAttribute("x", across(Math.max(0, shared.from)));
    band.setAttribute("width", Math.max(1, across(Math.min(endX, shared.to)) - across(Math.max(0, shared.from))));
  }

  function dot(curve, x, radius) {
    const place = { cx: across(x), cy: up(valueAt(curve, x)), r: radius };
    return svg("circle", { class: "dot", style: `fill:${curve.colour}`, ...place });
  }

  function drawMarks() {
    marks.replaceChildren();
    const visible = curves.filter((curve) => curve.shown);
    if (shared.job !== null) {
      for (const curve of visible) {
        if (curve.jobX && shared.job < curve.jobX.length) marks.append(dot(curve, curve.jobX[shared.job], 6));
      }
    }
    if (pointer === null) return;
    const x = across(pointer);
    marks.append(svg("line", { class: "cross", x1: x, x2: x, y1: MARGIN.top, y2: up(bottomY) }));
    for (const curve of visible) marks.append(dot(curve, pointer, 4));
  }

  function read(x, screenY) {
    pointer = Math.min(endX, Math.max(startX, x));
    drawMarks();
    const box = area.getBoundingClientRect();
    const rows = curves.filter((curve) => curve.shown).map((curve) => [curve.policy, told(valueAt(curve, pointer))]);
    const head = section.percent ? `within ${duration(pointer)}` : `at ${duration(pointer)}`;
    showTooltip(box.left + across(pointer), screenY ?? box.top + 40, head, null, rows);
  }

  function release() {
    pointer = null;
    drawMarks();
    hideTooltip();
  }

  area.addEventListener("pointermove", (event) => {
    const inside = event.clientX - area.getBoundingClientRect().left - MARGIN.left;
    read(xAtShare(inside / (width - MARGIN.left - MARGIN.right)), event.clientY);
  });
  area.addEventListener("pointerleave", release);
  area.addEventListener("blur", release);
  area.addEventListener("keydown", (event) => {
    const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (move) {
      read(xAtShare((pointer === null ? (move > 0 ? 0 : 1) : shareOfX(pointer)) + move / 60));
      event.preventDefault();
    } else if (event.key === "Escape") release();
  });
  for (const button of area.parentElement.querySelectorAll(".legend button")) {
    button.addEventListener("click", () => {
      const curve = curves.find((candidate) => candidate.policy === button.dataset.policy);
      curve.shown = !curve.shown;
      button.setAttribute("aria-pressed", String(curve.shown));
      draw();
    });
  }
  shared.addEventListener("job", drawMarks);
  shared.addEventListener("window", drawBand);
  onResize(area, draw);
  draw();
}
