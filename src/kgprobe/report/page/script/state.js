// The state of the page, stored in the URL hash so that a link shows exactly the same page.

const THEMES = ["auto", "light", "dark"];

// Each field parses its text from the hash (undefined: invalid, keep the default) and formats it.
function numberField(initial, low, high) {
  const read = (text) => (text.trim() !== "" && Number(text) >= low && Number(text) <= high ? Number(text) : undefined);
  return { initial, read, write: String };
}

function choiceField(initial, choices) {
  return { initial, read: (text) => (choices.includes(text) ? text : undefined), write: String };
}

function wholeField(initial) {
  return { initial, read: (text) => (/^[1-9]\d{0,8}$/.test(text) ? Number(text) : undefined), write: String };
}

// An index of a list, by its name in the link. Names that occur again get their number.
function nameField(initial, names) {
  const places = new Map();
  const written = names.map((name, i) => (places.has(name) ? `${name} #${i}` : name));
  written.forEach((name, i) => places.set(name, i));
  return { initial, read: (text) => places.get(text), write: (index) => written[index] };
}

// The models that are not shown; a link that hides all of them hides none.
function hiddenField(models) {
  const { read, write } = nameField(ALL, models.map(({ name }) => name));
  const readAll = (texts) => {
    const hidden = [...new Set(texts.map(read).filter((model) => model !== undefined))].sort((a, b) => a - b);
    return hidden.length < models.length ? hidden : undefined;
  };
  return { initial: [], readAll, write: (hidden) => hidden.map(write) };
}

// A sort order is a column name, with a minus sign for descending order.
function sortField(initial, columns) {
  const read = (text) => (columns.includes(text.replace(/^-/, "")) ? text : undefined);
  return { initial, read, write: String };
}

function stateFields(data) {
  return { ...(data.runs ? rankFields(data) : {}), ...worldFields(data), theme: choiceField("auto", THEMES) };
}

function worldFields({ openWorld }) {
  if (!openWorld.length) return {};
  return {
    world: nameField(0, openWorld.map(({ name }) => name)),
    worldMetric: nameField(0, openWorld[0].metrics.map(({ name }) => name)),
    worldSort: sortField("given", ["given", ...CONSISTENCY.map(([key]) => key)]),
  };
}

function rankFields(data) {
  const { models } = data;
  const [lowAlpha, highAlpha] = RANGES.wide.alpha;
  const [lowBeta, highBeta] = data.hasPopularity ? RANGES.wide.beta : [0, 0];
  const names = models.map(({ name }) => name);
  const byModel = models.map((_, index) => `model${index}`);
  const explained = data.reasons.length ? ["reasons"] : [];
  const worlds = data.openWorld.length ? ["openworld"] : [];
  return {
    alpha: numberField(1, lowAlpha, highAlpha),
    beta: numberField(0, lowBeta, highBeta),
    wide: choiceField("no", ["no", "yes"]),
    tab: choiceField("map", ["map", "ranks", "groups", "queries", "metrics", "audit", "protocol", ...worlds]),
    hidden: hiddenField(models),
    relation: nameField(ALL, data.relations),
    side: nameField(ALL, ["head", "tail"]),
    band: nameField(ALL, (data.bands ?? []).map((_, i) => String(i + 1))),
    // Unless chosen, the best models of the current point.
    heat: nameField(ALL, names),
    first: nameField(ALL, names),
    second: nameField(ALL, names),
    by: choiceField(data.hasPopularity ? "popularity" : "side", ["popularity", "side", "relation"]),
    groups: sortField("given", ["given", "label", "queries", "share", ...byModel]),
    groupsPage: wholeField(1),
    metric: choiceField(testedMetrics(data)[0] ?? "", testedMetrics(data)),
    search: { initial: "", read: (text) => text.slice(0, 500), write: String },
    sort: sortField("row", ["row", "head", "relation", "tail", "popularity", "candidates", "disagreement", ...byModel, ...explained]),
    why: wholeField(0), // the number of a query, from 1
    page: wholeField(1),
  };
}

function readHash(fields, hash) {
  const given = new URLSearchParams(hash.replace(/^#/, ""));
  const entries = Object.entries(fields).map(([name, field]) => {
    const read = () => (field.readAll ? field.readAll(given.getAll(name)) : field.read(given.get(name)));
    const value = given.has(name) ? read() : undefined;
    return [name, value === undefined ? field.initial : value];
  });
  return widened(Object.fromEntries(entries));
}

// Values outside the narrow ranges switch to the wide ones; a page without ranks has no sliders.
function widened(values) {
  return values.alpha === undefined || within(values, RANGES.narrow) ? values : { ...values, wide: "yes" };
}

// Lists are compared by their content.
function same(one, other) {
  return String(one) === String(other);
}

// Only values that differ from the defaults, to keep links short.
function writeHash(fields, values) {
  const written = new URLSearchParams();
  for (const [name, field] of Object.entries(fields)) {
    if (same(values[name], field.initial)) continue;
    [field.write(values[name])].flat().forEach((text) => written.append(name, text));
  }
  return `#${written}`;
}

// The fields that choose the queries and the models of all views.
const CHOICE = ["hidden", "relation", "side", "band"];

// The model for a view of one model: the chosen one, or the best that is shown.
function oneOf(data, { heat, alpha, beta }) {
  return data.shown.includes(heat) ? heat : bestFirst(data, alpha, beta)[0];
}

// The models for a view of two: the chosen ones, or the best that are shown.
function pairOf(data, { first, second, alpha, beta }) {
  const order = bestFirst(data, alpha, beta);
  const one = order.includes(first) ? first : order.find((model) => model !== second) ?? order[0];
  const other = order.includes(second) ? second : order.find((model) => model !== one);
  return order.length > 1 ? [one, other] : [one];
}

// Changes of the same fields within a second (a drag, typing) are one history entry.
const GESTURE_MS = 1000;
const WRITE_MS = 200;

function createState(data) {
  const fields = stateFields(data);
  const state = { values: readHash(fields, location.hash), changed: () => {} };
  state.chosen = () => selected(data, state.values);
  let gesture = { keys: "", at: -Infinity };
  let pending = 0;

  const flush = () => {
    if (!pending) return;
    clearTimeout(pending);
    pending = 0;
    history.replaceState(null, "", writeHash(fields, state.values));
  };

  state.update = (changes) => {
    const wanted = widened({ ...state.values, ...changes });
    const keys = Object.keys(wanted).filter((name) => !same(wanted[name], state.values[name]));
    if (!keys.length) return;
    const continues = keys.join() === gesture.keys && performance.now() - gesture.at < GESTURE_MS;
    if (!continues) flush();
    state.values = wanted;
    gesture = { keys: keys.join(), at: performance.now() };
    // Browsers limit the rate of history entries, so a drag is written when it ends.
    if (!continues) history.pushState(null, "", writeHash(fields, wanted));
    else if (!pending) pending = setTimeout(flush, WRITE_MS);
    state.changed(keys);
  };

  const restore = () => {
    clearTimeout(pending);
    pending = 0;
    gesture = { keys: "", at: -Infinity };
    const before = state.values;
    state.values = readHash(fields, location.hash);
    const keys = Object.keys(before).filter((name) => !same(before[name], state.values[name]));
    if (keys.length) state.changed(keys);
  };
  window.addEventListener("popstate", restore);
  window.addEventListener("pagehide", flush);
  return state;
}
