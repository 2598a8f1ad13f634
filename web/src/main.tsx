// The page. As a report it stands on its own: what the file says without JavaScript stays, and
// charts and steps take the place of their plain forms. As a live page it is fed by the server, and
// holds the report when the run has ended.

import "uplot/dist/uPlot.min.css";
import "./app.css";
import { render } from "preact";
import { App } from "./app";
import { type Run, packed, unpack } from "./data";
import { fleetPage } from "./fleet";
import { follow, joined, login, recordOf } from "./live";
import { morph } from "./morph";
import { sparklines } from "./small";
import { Steer } from "./steer";
import { Downloads, nameOf, save } from "./table";

const root = document.documentElement;

function places(): [HTMLElement, HTMLElement] | null {
  const charts = document.getElementById("charts");
  const steps = document.getElementById("steps");
  return charts && steps ? [charts, steps] : null;
}

async function report(): Promise<void> {
  const found = places();
  if (!found) return;
  const [charts, steps] = found;
  const record = packed(document.getElementById("record")?.textContent ?? "");
  const run = await unpack(record);
  if (!run.history || run.history.at_s.length === 0) return;
  sparklines(run);
  charts.replaceChildren();
  steps.replaceChildren();
  render(<App run={run} downloads={<Downloads run={run} record={record} />} steps={steps} />, charts);
  root.dataset.ready = "yes";
}

function say(words: string, fine = false): void {
  const status = document.getElementById("status");
  if (!status || status.textContent === words) return;
  status.textContent = words;
  status.classList.toggle("fine", fine);
}

function putParts(parts: Record<string, string>): void {
  for (const [name, html] of Object.entries(parts)) {
    const place = document.querySelector(`[data-part="${name}"]`);
    if (place) morph(place, html);
  }
}

/** The run so far, made by the server; or by this page, if the server has gone. */
function Sofar({ path, run, lost }: { path: string; run: Run; lost: boolean }) {
  const keep = () => { void recordOf(run).then((record) => save(`${nameOf(run)}.volley`, record, "application/gzip")); };
  if (lost) return <button type="button" class="main" onClick={keep}>Save what this page has</button>;
  return (
    <>
      <a class="button" href={`${path}/report`} download={`${nameOf(run)}.html`}>Report so far</a>
      <a class="button" href={`${path}/record`} download={`${nameOf(run)}.volley`}>Record</a>
      <a class="button" href={`${path}/summary`} download={`${nameOf(run)}.summary.json`}>Summary</a>
    </>
  );
}

async function live(key: string): Promise<void> {
  const found = places();
  const controls = document.getElementById("steer");
  if (!found || !controls) return;
  const [charts, steps] = found;
  const path = `/api/run/${key}`;
  let run: Run | null = null;
  let state = "preparing";
  let lost = false;
  const steer = () => render(<Steer path={path} state={state} fleet={root.dataset.fleet === "yes"} over={false} say={say} />, controls);
  const draw = () => {
    if (!run || run.history.at_s.length === 0) return;
    if (root.dataset.ready !== "yes") {
      charts.replaceChildren();
      steps.replaceChildren();
      root.dataset.ready = "yes";
    }
    render(<App run={run} downloads={<Sofar path={path} run={run} lost={lost} />} steps={steps} />, charts);
    sparklines(run);
  };
  await login();
  say("Waiting for the run …");
  follow(`${path}/events`, {
    update: (update) => {
      say(update.words);
      if (update.parts) putParts(update.parts);
      const history = joined(run?.history, update);
      const document_ = update.document ?? run;
      if (document_ && history) run = { ...document_, history } as Run;
      if (update.state !== undefined) state = update.state;
      if (run) document.title = `${run.summary.plan} · ${state} · Volley`;
      steer();
      draw();
      root.dataset.updates = String(Number(root.dataset.updates ?? 0) + 1);
    },
    end: (finished) => {
      lost = false;
      putParts(finished.parts);
      say("The run has ended. This page holds its whole report and needs no server any more.", true);
      document.title = `${finished.run.summary.plan} · Volley`;
      render(<Steer path={path} state="done" fleet={root.dataset.fleet === "yes"} over={true} say={say} />, controls);
      if (finished.run.history.at_s.length > 0) {
        if (root.dataset.ready !== "yes") charts.replaceChildren(), steps.replaceChildren();
        const downloads = <Downloads run={finished.run} record={finished.record} report={finished.report} />;
        render(<App run={finished.run} downloads={downloads} steps={steps} />, charts);
        sparklines(finished.run);
      }
      root.dataset.ready = "yes";
      root.dataset.ended = "yes";
    },
    lost: (why) => {
      lost = true;
      say(why === "refused"
        ? "The server does not know this browser: open the link that the command has printed."
        : "The connection is lost, and it is tried again. What this page has is still here.");
      draw();
    },
    back: () => {
      lost = false;
      say("");
      draw();
    },
  });
}

async function start(): Promise<void> {
  const key = root.dataset.live;
  if (key) await live(key);
  else if (root.dataset.fleet === "yes") await login().then(() => fleetPage(say));
  else await report();
}

// Whatever goes wrong here, the plain page of a report is complete.
start().catch((error: unknown) => console.error(error));
