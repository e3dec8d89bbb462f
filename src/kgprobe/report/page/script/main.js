// Opens the data, builds the views and keeps them up to date with what the reader chooses.

const CALM_MS = 120;
const RESTLESS = ["alpha", "beta", "search"];

// A view says which choices it needs, and which panel it is in. While a slider moves or a word is typed only live views
// follow, frame by frame; the others wait until it rests, and those in a hidden panel until it is opened.
function connect(views, state) {
  const stale = new Set(views);
  let frame = 0;
  let moves = false;
  // Whoever automates the page can wait for data-drawn: what is shown is then what was asked for.
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
  source.remove(); // the text is of no more use, and large
  const state = createState(data);
  find("columns").hidden = false;
  const worlds = data.openWorld.length ? [createOpenWorld(data, state)] : [];
  connect([createHeader(data, state), ...(data.runs ? rankViews(data, state) : []), ...worlds], state);
}

function rankViews(data, state) {
  return [
    createTabs(data, state), createControls(data, state), createScores(data, state), ...createMap(data, state),
    createHistogram(data, state), createGroups(data, state), ...createQueries(data, state), createMetrics(data, state),
    createAudit(data), createProtocol(data),
  ];
}

function showFailure(text) {
  find("failure").hidden = false;
  find("failure").textContent = text;
}

start().then(() => {
  const drawing = (error) => showFailure(`This page could not be drawn: ${error.message}.`);
  addEventListener("unhandledrejection", ({ reason }) => drawing(reason));
  addEventListener("error", ({ error }) => { if (error) drawing(error); });
}).catch((error) => {
  showFailure(`This page could not be opened: ${error.message}. It needs a browser of 2023 or later.`);
  throw error;
});
