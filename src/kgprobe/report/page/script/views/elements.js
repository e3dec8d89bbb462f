// Building blocks of the page. Text enters the document as text only, never as HTML.

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

// A label from the data: isolated, so that right-to-left text does not reorder what stands around it.
function label(text) {
  return make("bdi", { class: "label" }, String(text));
}

function swatch(index) {
  return make("span", { class: "swatch", style: `background:${modelColour(index)}`, "aria-hidden": "true" });
}

function modelName(data, index, mark = auditMark(data, data.models[index].name)) {
  return make("span", { class: "model" }, swatch(index), label(data.models[index].name), mark);
}

// How many findings of a severity the audit has about a model.
function findingsOf(data, name, severity) {
  return data.findings.filter((item) => item.severity === severity && item.models.includes(name)).length;
}

// Stands behind the name of a model that the audit objects to or warns about.
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
  // A true minus sign has the width of a digit; a value that rounds to zero has no sign.
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

// "A, B and C" out of nodes or texts.
function listed(items) {
  return items.flatMap((item, i) => [i === 0 ? "" : i === items.length - 1 ? " and " : ", ", item]);
}

// A choice among the models, made once and then set: a new one would take the focus away.
function showSelect(place, data, { id, text, chosen, pick }) {
  if (!place.firstChild) {
    const options = data.models.map((model, index) => make("option", { value: index },
      `${model.name}${auditMark(data, model.name)}`));
    const select = make("select", { id, dir: "auto", onchange: () => pick(Number(select.value)) }, options);
    place.append(make("label", { class: "pick", for: id }, text, " ", select));
  }
  place.querySelector("select").value = chosen;
}

function button(text, onclick, attributes = {}) {
  return make("button", { type: "button", onclick, ...attributes }, text);
}

function heading(text) {
  return make("h3", {}, text);
}

// Calls that come faster than this wait; the last one counts.
function calm(run, milliseconds) {
  let timer = 0;
  return (...values) => {
    clearTimeout(timer);
    timer = setTimeout(() => run(...values), milliseconds);
  };
}

// Calls that come faster than this are joined: the first runs at once, the last at the end.
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
