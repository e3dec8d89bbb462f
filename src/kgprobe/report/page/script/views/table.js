// A table whose header buttons sort. The head is built once, so that focus stays on the button just pressed.

// columns: {key, title, numeric, cell(row) -> node or text, header: true for the column that names the row}
function createTable(caption, columns, onSort = null) {
  const heads = columns.map((column) => {
    const attributes = { scope: "col", class: column.numeric ? "number" : null };
    if (!onSort || column.unsorted) return make("th", attributes, column.title);
    const sort = button(column.title, () => onSort(column.key), { class: "sort", "data-column": column.key });
    return make("th", attributes, sort);
  });
  const body = make("tbody");
  const head = make("thead", {}, make("tr", {}, heads));
  const table = make("table", {}, make("caption", { class: "unseen" }, caption), head, body);
  // Tables that are too wide scroll in their own box, which the keyboard can reach.
  const element = make("div", { class: "box", tabindex: "0", role: "region", "aria-label": caption }, table);

  const show = (rows, order = "") => {
    columns.forEach((column, i) => {
      const direction = order === column.key ? "ascending" : order === `-${column.key}` ? "descending" : null;
      if (direction) heads[i].setAttribute("aria-sort", direction);
      else heads[i].removeAttribute("aria-sort");
    });
    body.replaceChildren(...rows.map((row) => make("tr", {}, columns.map((column) => tableCell(column, row)))));
  };
  return { element, show };
}

function tableCell(column, row) {
  const attributes = { class: column.numeric ? "number" : null, ...(column.header ? { scope: "row" } : {}) };
  return make(column.header ? "th" : "td", attributes, column.cell(row));
}

// Numbers are first sorted from the largest, words from A; a second press turns the order round.
function nextOrder(order, key, numeric) {
  if (order === key) return `-${key}`;
  if (order === `-${key}`) return key;
  return numeric ? `-${key}` : key;
}

function sortRows(rows, order, valueOf) {
  const key = order.replace(/^-/, "");
  const sign = order.startsWith("-") ? -1 : 1;
  const compare = (a, b) => {
    const [x, y] = [valueOf(a, key), valueOf(b, key)];
    if (typeof x === "string") return sign * x.localeCompare(y);
    const [missingX, missingY] = [!Number.isFinite(x), !Number.isFinite(y)];
    return missingX || missingY ? missingX - missingY : sign * (x - y);
  };
  return valueOf(rows[0] ?? {}, key) === undefined ? rows : [...rows].sort(compare);
}

// Pages rather than endless scrolling: a screen reader and the back button know where they are.
function createPager(text, onPage) {
  let pages = 1;
  let page = 1;
  const go = (wanted) => onPage(Math.min(Math.max(wanted, 1), pages));
  const field = make("input", { type: "number", min: 1, step: 1, "aria-label": `${text}: page` });
  field.addEventListener("change", () => go(Math.round(Number(field.value)) || 1));
  const total = make("span");
  const back = [button("First", () => go(1)), button("Previous", () => go(page - 1))];
  const forward = [button("Next", () => go(page + 1)), button("Last", () => go(pages))];
  const place = make("span", {}, "Page ", field, total);
  const element = make("nav", { class: "pager", "aria-label": text }, back, place, forward);

  const show = (wanted, rows, size) => {
    pages = Math.max(1, Math.ceil(rows / size));
    page = Math.min(wanted, pages);
    field.value = page;
    field.max = pages;
    total.textContent = ` of ${whole(pages)}`;
    // aria-disabled keeps the focus where it is when the last page is reached.
    back.forEach((item) => item.setAttribute("aria-disabled", String(page === 1)));
    forward.forEach((item) => item.setAttribute("aria-disabled", String(page === pages)));
    element.hidden = pages === 1;
    return [(page - 1) * size, Math.min(page * size, rows)];
  };
  return { element, show };
}
