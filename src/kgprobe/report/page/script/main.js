// Opens the data, creates the views and redraws them when the state changes.

const CALM_MS = 120;
const RESTLESS = ["alpha", "beta", "search"];

// Each view declares the state keys that it needs and its panel. During slider or keyboard input only live views are
// redrawn, once per frame; the others wait until the input rests, and those in a hidden panel until it is opened.
function connect(views, state) {
  const stale = new Set(views);
  let frame = 0;
  let moves = false;
  // Automated tests can wait for data-drawn="yes": all visible views are then up to date.
  const mark = () => { document.documentElement.dataset.drawn = frame || moves ? "no" : "yes"; };
  const drawStale = () => {
    for (const view of views) {
      const shown = !view.panel || view.panel === state.values.tab;
      if (!stale.has(view) || !shown || (moves && !view.live)) continue;
      stale.delete(view);
      view.draw();
    }
    mark();
  };
  const soon = () => {
    frame = 0;
    drawStale();
  };
  const rested = calm(() => {
    moves = false;
    drawStale();
  }, CALM_MS);
  state.changed = (keys) => {
    views.filter((view) => view.needs.some((key) => keys.includes(key))).forEach((view) => stale.add(view));
    frame ||= requestAnimationFrame(soon);
    if (keys.some((key) => RESTLESS.includes(key))) {
      moves = true;
      rested();
    }
    mark();
  };
  drawStale();
}

async function start() {
  const source = find("data");
  const data = await openData(source.textContent);
  source.remove(); // large, and no longer needed
  const state = createState(data);
  find("columns").hidden = false;
  const worlds = data.openWorld.length ? [createOpenWorld(data, state)] : [];
  connect([createHeader(data, state), ...(data.runs ? rankViews(data, state) : []), ...worlds], state);
}

function rankViews(data, state) {
  return [
    createTabs(data, state), createControls(data, state), createFilters(data, state), createModels(data, state), createScores(data, state), ...createMap(data, state),
    createHistogram(data, state), createGroups(data, state), ...createQueries(data, state), createMetrics(data, state),
    createAudit(data), createProtocol(data),
  ];
}

function showFailure(text) {
  find("failure").hidden = false;
  find("failure").textContent = text;
}

start().then(() => {
  const drawing = (error) => showFailure(`Drawing failed: ${error.message}.`);
  addEventListener("unhandledrejection", ({ reason }) => drawing(reason));
  addEventListener("error", ({ error }) => { if (error) drawing(error); });
}).catch((error) => {
  showFailure(`This page cannot be opened: ${error.message}. It needs a browser from 2023 or later.`);
  throw error;
});
