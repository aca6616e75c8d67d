import { useEffect, useState } from "react";
import { createRoot } from "react-dom/client";

async function request(method, path) {
  const response = await fetch(`/api/${path}`, { method });
  if (!response.ok) {
    throw new Error((await response.json().catch(() => ({}))).detail ?? `status ${response.status}`);
  }
  return response.json();
}

/** Asks how the run is doing, more and more rarely, until it is over. */
function useRun(first) {
  const [run, setRun] = useState(first);
  useEffect(() => setRun(first), [first]);
  useEffect(() => {
    if (!run || run.status === "done" || run.status === "failed" || run.status === "cancelled") return;
    let wait = 500;
    let timer = setTimeout(async function look() {
      try {
        const now = await request("GET", `runs/${run.run}`);
        if (now.status !== run.status) return setRun({ ...run, ...now });
      } catch (problem) {
        return setRun({ ...run, status: "failed", error: problem.message });
      }
      wait = Math.min(wait * 1.2, 5000);
      timer = setTimeout(look, wait);
    }, wait);
    return () => clearTimeout(timer);
  }, [run]);
  return run;
}

function Login({ onLogin }) {
  const [name, setName] = useState("");
  return (
    <form
      onSubmit={async (event) => {
        event.preventDefault();
        await request("POST", `login/${encodeURIComponent(name)}`);
        onLogin(name);
      }}
    >
      <label htmlFor="name">Your name</label>
      <input id="name" value={name} onChange={(event) => setName(event.target.value)} required />
      <button>Log in</button>
    </form>
  );
}

function Connect({ connect }) {
  return (
    <section className="card">
      <p>
        {connect.provider} wants your consent{connect.scopes?.length ? ` to: ${connect.scopes.join(", ")}` : ""}.
      </p>
      <a className="connect" href={connect.url} target="_blank" rel="noopener">
        Connect {connect.provider}
      </a>
      <p aria-live="polite">Waiting for you to come back…</p>
    </section>
  );
}

function Answer({ run }) {
  if (run.status === "done" && !run.is_error) {
    return (
      <section className="card" aria-live="polite">
        <h2>Result</h2>
        <pre>{run.text}</pre>
      </section>
    );
  }
  return (
    <section className="card problem" role="alert">
      {run.error ?? run.text ?? "It did not work."}
    </section>
  );
}

function Page() {
  const [user, setUser] = useState(null);
  const [asked, setAsked] = useState(null);
  const run = useRun(asked);

  async function ask() {
    try {
      setAsked(await request("POST", "ask"));
    } catch (problem) {
      setAsked({ status: "failed", error: problem.message });
    }
  }

  if (user === null) return <Login onLogin={setUser} />;
  return (
    <>
      <div className="ask">
        <span>Hello, {user}.</span>
        <button onClick={ask}>Who am I there?</button>
      </div>
      {run?.status === "paused" && run.connect && <Connect connect={run.connect} />}
      {run?.status === "running" && <p>Working…</p>}
      {["done", "failed", "cancelled"].includes(run?.status) && <Answer run={run} />}
    </>
  );
}

createRoot(document.getElementById("root")).render(<Page />);
