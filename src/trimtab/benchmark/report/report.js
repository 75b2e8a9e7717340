// Start: read the data, switch themes, draw every section, and say when it is done.

const report = JSON.parse(document.getElementById("report-data").textContent);
const root = document.documentElement;
const themeButton = document.getElementById("theme");
const systemDark = matchMedia("(prefers-color-scheme: dark)");

const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : systemDark.matches);

function themeChanged() {
  themeButton.textContent = isDark() ? "Light" : "Dark";
  themeButton.setAttribute("aria-label", `Switch to the ${isDark() ? "light" : "dark"} theme`);
  shared.dispatchEvent(new Event("theme"));
}

themeButton.addEventListener("click", () => {
  root.dataset.theme = isDark() ? "light" : "dark";
  themeChanged();
});
systemDark.addEventListener("change", themeChanged);

// Paper is white and narrow: charts are drawn again before printing, and back afterwards.
let themeOnScreen;
addEventListener("beforeprint", () => {
  themeOnScreen = root.dataset.theme;
  root.dataset.theme = "light";
  root.dataset.printing = "true";
  themeChanged();
  shared.dispatchEvent(new Event("layout"));
});
addEventListener("afterprint", () => {
  if (themeOnScreen) root.dataset.theme = themeOnScreen;
  else delete root.dataset.theme;
  delete root.dataset.printing;
  themeChanged();
  shared.dispatchEvent(new Event("layout"));
});

shared.scrolledAt = -Infinity;
addEventListener("scroll", () => {
  shared.scrolledAt = performance.now();
  hideTooltip();
}, { passive: true });

for (const table of document.querySelectorAll("table.comparison")) startTable(table);
// Gantt charts first: they set the window of time that other charts mark.
for (const area of document.querySelectorAll(".gantt-body")) {
  startGantt(area, report.sections[area.dataset.section]);
}
for (const area of document.querySelectorAll(".chart")) {
  startCurves(area, report.sections[area.dataset.section], report.policies);
}
themeChanged();
document.body.dataset.ready = "true";
