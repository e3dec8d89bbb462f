// Building blocks of the page: elements, number formats, sortable tables. Text enters the document as text only, never as
// HTML.

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return element;
}

function find(id) {
  return document.getElementById(id);
}

// A label from the data; isolated, so that right-to-left text does not reorder its surroundings.
function label(text) {
  return make("bdi", { class: "label" }, String(text));
}

function swatch(index) {
  return make("span", { class: "swatch", style: `background:var(--model-${index})`, "aria-hidden": "true" });
}

function modelName(data, index, mark = auditMark(data, data.models[index].name)) {
  const name = label(data.models[index].name);
  return make("span", { class: "model" }, swatch(index), name, mark ? make("span", { class: "mark" }, mark) : null);
}

// The number of audit findings of a severity for a model.
function findingsOf(data, name, severity) {
  return data.findings.filter((item) => item.severity === severity && item.models.includes(name)).length;
}

// The mark behind the name of a model that has audit errors or warnings.
function auditMark(data, name) {
  return ["error", "warning"].some((severity) => findingsOf(data, name, severity)) ? " (audit)" : "";
}

function markedLabel(data, name) {
  return [label(name), auditMark(data, name)];
}

function unseen(text) {
  return make("span", { class: "unseen" }, text);
}

const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const RANK = new Intl.NumberFormat("en", { maximumFractionDigits: 2 });

function fixed(value, digits = 4) {
  if (!Number.isFinite(value)) return "none";
  // The minus sign has the width of a digit; a value that rounds to zero has no sign.
  return value.toFixed(digits).replace(/^-(?=0\.?0*$)/, "").replace("-", "−");
}

function signed(value, digits = 4) {
  const text = fixed(value, digits);
  return value > 0 && Number(value.toFixed(digits)) !== 0 ? `+${text}` : text;
}

function significant(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "none";
  if (value === 0) return "0";
  return Math.abs(value) < 1e-5 ? value.toExponential(1) : value.toPrecision(2);
}

function whole(value) {
  return Number.isFinite(value) ? WHOLE.format(value) : "none";
}

function percent(share) {
  return `${(100 * share).toFixed(share > 0 && share < 0.1 ? 1 : 0)} %`;
}

function rangeText(low, high, digits = 4) {
  const known = Number.isFinite(low) && Number.isFinite(high);
  return known ? `${fixed(low, digits)} to ${fixed(high, digits)}` : "no interval";
}

function plural(count, one, many = `${one}s`) {
  return `${whole(count)} ${count === 1 ? one : many}`;
}

function pointText({ alpha, beta }) {
  return `alpha ${shortNumber(alpha)}, beta ${shortNumber(beta)}`;
}

function shortNumber(value) {
  return String(Number(value.toFixed(4))).replace("-", "−");
}

// "A, B and C" from nodes or texts.
function listed(items) {
  return items.flatMap((item, i) => [i === 0 ? "" : i === items.length - 1 ? " and " : ", ", item]);
}

// A select element for the models, created once: a new element would lose the focus.
function showSelect(place, data, { id, text, chosen, pick }) {
  if (!place.firstChild) {
    const options = data.models.map((model, index) => make("option", { value: index },
      `${model.name}${auditMark(data, model.name)}`));
    const select = make("select", { id, dir: "auto", onchange: () => pick(Number(select.value)) }, options);
    place.append(make("label", { class: "pick", for: id }, text, " ", select));
  }
  const select = place.querySelector("select");
  [...select.options].forEach((option, index) => { option.disabled = !data.shown.includes(index); });
  select.value = chosen;
}

function button(text, onclick, attributes = {}) {
  return make("button", { type: "button", onclick, ...attributes }, text);
}

function heading(text) {
  return make("h3", {}, text);
}

// Debounce: only the last of several quick calls runs.
function calm(run, milliseconds) {
  let timer = 0;
  return (...values) => {
    clearTimeout(timer);
    timer = setTimeout(() => run(...values), milliseconds);
  };
}

// Throttle: of several quick calls the first runs at once, and one more at the end of the interval.
function throttled(run, milliseconds) {
  let timer = 0;
  let again = false;
  const rest = () => {
    timer = again ? setTimeout(rest, milliseconds) : 0;
    if (again) run();
    again = false;
  };
  return () => {
    again = timer !== 0;
    if (timer) return;
    timer = setTimeout(rest, milliseconds);
    run();
  };
}

// A sortable table. The head is created once for the same columns, so that the focus stays on the pressed button. On a
// narrow screen the rows are laid out as cards, and browsers drop the table semantics: the roles restore them.

// columns: {key, title, numeric, cell(row) -> node or text, header: true for row headers}
function createTable(caption, columns = [], onSort = null) {
  let [current, heads] = [null, []];
  const body = make("tbody", { role: "rowgroup" });
  const line = make("tr", { role: "row" });
  const head = make("thead", { role: "rowgroup", class: onSort ? null : "plain" }, line);
  const table = make("table", { class: "stacked", role: "table" }, make("caption", { class: "unseen" }, caption), head, body);
  // Wide tables scroll in their own focusable box.
  const element = make("div", { class: "box", tabindex: "0", role: "region", "aria-label": caption }, table);

  const showHead = (wanted) => {
    if (current === wanted) return;
    current = wanted;
    heads = wanted.map((column) => tableHead(column, onSort));
    line.replaceChildren(...heads);
  };
  const show = (rows, order = "", wanted = columns) => {
    showHead(wanted);
    wanted.forEach((column, i) => {
      const direction = order === column.key ? "ascending" : order === `-${column.key}` ? "descending" : null;
      if (direction) heads[i].setAttribute("aria-sort", direction);
      else heads[i].removeAttribute("aria-sort");
    });
    const titles = heads.map(({ textContent }) => textContent);
    const cells = (row) => wanted.map((column, i) => tableCell(column, row, titles[i]));
    body.replaceChildren(...rows.map((row) => make("tr", { role: "row" }, cells(row))));
  };
  return { element, table, show };
}

function tableHead(column, onSort) {
  const attributes = { scope: "col", role: "columnheader", class: column.numeric ? "number" : null };
  if (!onSort || column.unsorted) return make("th", attributes, column.title);
  const sort = button(column.title, () => onSort(column.key), { class: "sort", "data-column": column.key });
  return make("th", attributes, sort);
}

function tableCell(column, row, title) {
  const kind = { class: column.numeric ? "number" : null, "data-title": title };
  if (column.header) return make("th", { scope: "row", role: "rowheader", ...kind }, column.cell(row));
  return make("td", { role: "cell", ...kind }, column.cell(row));
}

// Numbers are sorted in descending order first, texts in ascending order; a second press reverses the order.
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

// Pages instead of endless scrolling, for screen readers and the back button.
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
    // Unlike disabled, aria-disabled keeps the focus on the button.
    back.forEach((item) => item.setAttribute("aria-disabled", String(page === 1)));
    forward.forEach((item) => item.setAttribute("aria-disabled", String(page === pages)));
    element.hidden = pages === 1;
    return [(page - 1) * size, Math.min(page * size, rows)];
  };
  return { element, show };
}
