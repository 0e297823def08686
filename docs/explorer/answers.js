// Who answers: a file with answers that were prepared for the examples, or Python in a worker. What was asked once is remembered.

const PATIENCE = 2000; // milliseconds after which a worker that thinks about what nobody waits for is replaced

export class Answers {
  #known = new Map(); // from a request to the promise of its answer
  #waiting = new Map(); // from a request to what settles its promise, in the order in which they were asked
  #worker = null;
  #isReady = false;
  #sent = null; // the request that the worker thinks about
  #since = 0;
  #timer = 0;

  // `tell` hears of the state of Python: "loading", "ready", "busy", "absent" or "failed".
  constructor(tell) {
    this.tell = tell;
  }

  start() {
    this.#isReady = false;
    this.#sent = null;
    this.tell("loading");
    this.#worker = new Worker(new URL("./worker.js", import.meta.url), { type: "module" });
    this.#worker.onmessage = ({ data }) => this.#hear(data);
    this.#worker.onerror = (event) => this.#hear({ failure: event.message || "the worker could not be started" });
  }

  // Takes in answers that were prepared: a table from requests to answers.
  learn(table) {
    for (const [key, answer] of Object.entries(table)) this.#known.set(key, Promise.resolve(answer));
  }

  // The answer to a request such as ask("summary", "i j -> i j", 1).
  ask(...request) {
    const key = JSON.stringify(request);
    if (!this.#known.has(key)) {
      const promise = new Promise((resolve, reject) => this.#waiting.set(key, { resolve, reject }));
      this.#known.set(key, promise);
      this.#next();
      return promise;
    }
    return this.#known.get(key);
  }

  // Drops what nobody waits for any more, because another map was typed.
  forget() {
    for (const [key, { reject }] of this.#waiting) {
      if (key === this.#sent) continue;
      this.#waiting.delete(key);
      this.#known.delete(key);
      reject(new Superseded());
    }
    clearTimeout(this.#timer);
    if (this.#sent) this.#timer = setTimeout(() => this.#replace(), Math.max(0, this.#since + PATIENCE - performance.now()));
  }

  // A worker cannot be interrupted: what is late is left behind with it.
  #replace() {
    if (!this.#sent) return;
    this.#known.delete(this.#sent);
    this.#settle(this.#sent, (one) => one.reject(new Superseded()));
    this.#worker.terminate();
    this.start();
  }

  #next() {
    if (!this.#worker) return this.#giveUp("Python is not part of this copy of the page: the examples below are all it can show.");
    if (!this.#isReady || this.#sent || !this.#waiting.size) return;
    [this.#sent] = this.#waiting.keys();
    this.#since = performance.now();
    this.tell("busy");
    this.#worker.postMessage(this.#sent);
  }

  #hear({ ready, key, reply, failure }) {
    if (failure && !key) {
      this.#worker = null;
      this.tell("failed");
      return this.#giveUp(`Python could not be loaded (${failure}): the examples below are all that can be shown.`);
    }
    if (ready) this.#isReady = true;
    if (key) {
      this.#settle(key, (one) => (failure ? one.reject(new Error(failure)) : one.resolve(JSON.parse(reply))));
      this.#sent = null;
      clearTimeout(this.#timer);
    }
    this.tell("ready");
    this.#next();
  }

  #settle(key, how) {
    const one = this.#waiting.get(key);
    this.#waiting.delete(key);
    if (one) how(one);
  }

  #giveUp(message) {
    for (const [key, { reject }] of this.#waiting) {
      this.#waiting.delete(key);
      this.#known.delete(key);
      reject(new Error(message));
    }
  }
}

// An answer that nobody waits for any more.
export class Superseded extends Error {}
