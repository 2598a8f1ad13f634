// The first page of a fleet: its jobs and its nodes.

import { render } from "preact";
import { count } from "./format";

interface Job {
  id: string; name: string; state: string; outcome: string; detail: string; age: string;
  requests: number; failed: number; by: string; owner: string; ended: boolean; good: boolean;
}
interface Node { name: string; role: string; state: string; about: string; good: boolean }
interface Fleet { title: string; jobs: Job[]; nodes: Node[]; words: string }

const EVERY_MS = 2000;

function Jobs({ jobs }: { jobs: Job[] }) {
  if (jobs.length === 0) return <p class="quiet">None. <code>volley submit plan.yaml</code> makes one.</p>;
  return (
    <div class="wide"><table>
      <thead><tr><th>State</th><th>Job</th><th class="number">Requests</th><th class="number">Failed</th><th>Submitted</th><th>By</th><th>Owner</th></tr></thead>
      <tbody>
        {jobs.map((job) => (
          <tr key={job.id}>
            <td><span class={`mark ${job.ended ? (job.good ? "good" : "bad") : "warn"}`}>{job.outcome || job.state}</span></td>
            <th scope="row"><a href={`/job/${job.id}`}>{job.name}</a><br /><span class="quiet">{job.id.slice(0, 8)}{job.detail ? ` · ${job.detail}` : ""}</span></th>
            <td class="number">{count(job.requests)}</td>
            <td class={`number ${job.failed > 0 ? "hurt" : ""}`}>{count(job.failed)}</td>
            <td>{job.age}</td><td>{job.by}</td><td>{job.owner}</td>
          </tr>
        ))}
      </tbody>
    </table></div>
  );
}

function Nodes({ nodes }: { nodes: Node[] }) {
  return (
    <div class="wide"><table>
      <thead><tr><th>State</th><th>Node</th><th>Role</th><th>About</th></tr></thead>
      <tbody>
        {nodes.map((node) => (
          <tr key={node.name}>
            <td><span class={`mark ${node.good ? "good" : "bad"}`}>{node.state}</span></td>
            <th scope="row">{node.name}</th><td>{node.role}</td><td>{node.about}</td>
          </tr>
        ))}
      </tbody>
    </table></div>
  );
}

function Page({ fleet }: { fleet: Fleet }) {
  return (
    <>
      <header><p class="brand">Volley · fleet</p><h1>{fleet.title}</h1></header>
      <main>
        <section><h2>Jobs that run or wait</h2><Jobs jobs={fleet.jobs.filter((job) => !job.ended)} /></section>
        <section><h2>Jobs that have ended</h2><Jobs jobs={fleet.jobs.filter((job) => job.ended)} /></section>
        <section><h2>Nodes</h2><Nodes nodes={fleet.nodes} /></section>
      </main>
    </>
  );
}

export function fleetPage(say: (words: string) => void): void {
  const place = document.getElementById("fleet");
  if (!place) return;
  const look = async () => {
    try {
      const response = await fetch("/api/fleet");
      if (response.status === 401) {
        say("The server does not know this browser: open the link that the command has printed.");
      } else if (!response.ok) {
        say(((await response.json()) as { problem: string }).problem);
      } else {
        const fleet = (await response.json()) as Fleet;
        say(fleet.words);
        document.title = `${fleet.title} · Volley`;
        render(<Page fleet={fleet} />, place);
        document.documentElement.dataset.ready = "yes";
      }
    } catch {
      say("`volley web` does not answer; it is tried again.");
    }
    setTimeout(() => void look(), EVERY_MS);
  };
  void look();
}
