// Sorting by any heading; the first click puts the best on top, rows without a number stay last.

function startTable(table) {
  const heads = [...table.tHead.rows[0].cells];
  const body = table.tBodies[0];
  const valueOf = (row, column) => row.cells[column].dataset.value;

  function sort(column) {
    const head = heads[column];
    const before = head.getAttribute("aria-sort");
    const opposite = { ascending: "descending", descending: "ascending" };
    const order = before ? opposite[before] : head.dataset.first;
    const sign = order === "ascending" ? 1 : -1;
    const numeric = head.classList.contains("number");
    const rows = [...body.rows].sort((one, other) => {
      const [a, b] = [valueOf(one, column), valueOf(other, column)];
      if (a === undefined || b === undefined) return (a === undefined) - (b === undefined);
      return sign * (numeric ? Number(a) - Number(b) : a.localeCompare(b));
    });
    for (const other of heads) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", order);
    body.append(...rows);
  }

  heads.forEach((head, column) => {
    head.querySelector("button")?.addEventListener("click", () => sort(column));
  });
}
