// What may be asked of a run. Each question is asked back once, and is in the timeline afterwards.

import { useState } from "preact/hooks";
import { post } from "./live";

interface Props { path: string; state: string; fleet: boolean; over: boolean; say: (words: string, fine?: boolean) => void }

export function Steer({ path, state, fleet, over, say }: Props) {
  const [busy, setBusy] = useState(false);
  const ask = (question: string, body: unknown) => async () => {
    if (!confirm(question)) return;
    setBusy(true);
    const answer = await post(`${path}/steer`, body).catch((error: unknown) => ({ problem: String(error), done: undefined }));
    setBusy(false);
    say(answer.problem ?? answer.done ?? "", answer.problem === undefined);
  };
  const paused = state === "paused";
  const can = !over && !busy && (state === "running" || paused);
  return (
    <>
      {fleet && <a class="button" href="/">All jobs</a>}
      {!over && (
        <>
          {paused
            ? <button type="button" disabled={!can} onClick={ask("Resume the run?", { do: "resume" })}>Resume</button>
            : <button type="button" disabled={!can} onClick={ask("Pause the run? The schedule stands still until it is resumed.", { do: "pause" })}>Pause</button>}
          <button type="button" disabled={!can || paused} onClick={ask("Half as much load?", { do: "scale", by: 0.5 })}>Load ÷ 2</button>
          <button type="button" disabled={!can || paused} onClick={ask("Twice as much load?", { do: "scale", by: 2 })}>Load × 2</button>
          <button type="button" class="danger" disabled={busy || state === "stopping"} onClick={ask("Stop the run? Running iterations may finish.", { do: "stop" })}>Stop</button>
        </>
      )}
    </>
  );
}
