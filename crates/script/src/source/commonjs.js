// Runs CommonJS files inside a runtime that knows ES modules only.
//
// The runtime evaluates this text once per VU, before any user code, and calls the function with
//   resolve(from, specifier, running) -> module name (Sources::resolve_require); it throws when
//     there is none, or outside the init stage
//   evaluate(name) runs the text of `require_module(name)` as a module, to the end, without
//     running any job, and throws if that fails
// A CommonJS file is handed out as an ES module whose body calls __volley_commonjs; a `require`
// in either kind of file ends in __volley_require.
(function (resolve, evaluate) {
  "use strict";
  const modules = new Map();
  // CommonJS files whose bodies are being run, outermost first.
  const running = [];
  let delivered;

  function require(from, specifier) {
    if (typeof specifier !== "string" || specifier === "") {
      throw new TypeError("require() needs the name of a module as a non-empty string");
    }
    const name = resolve(from, specifier, running);
    if (!modules.has(name)) {
      evaluate(name);
      const namespace = delivered;
      delivered = undefined;
      if (!modules.has(name)) {
        // JSON files and modules of the program are their default export, as in k6.
        const whole = name.endsWith(".json") || !name.includes(":");
        return whole && "default" in namespace ? namespace.default : namespace;
      }
    }
    const module = modules.get(name);
    if (module.failed) {
      throw module.error;
    }
    // In a cycle this is what the other file has exported so far, as in Node.
    return module.exports;
  }

  function commonjs(name, body) {
    const module = { exports: {} };
    const entry = {
      get exports() {
        return module.exports;
      },
      failed: false,
      error: undefined,
    };
    modules.set(name, entry);
    running.push(name);
    try {
      body.call(module.exports, module.exports, (specifier) => require(name, specifier), module);
    } catch (error) {
      // The file ran once and failed; whoever asks again gets the same answer.
      entry.failed = true;
      entry.error = error;
      throw error;
    } finally {
      running.pop();
    }
    const exports = module.exports;
    const view = exports === null || exports === undefined ? {} : Object(exports);
    return { exports, view, default: "default" in view ? view.default : exports };
  }

  for (const [name, value] of [
    ["__volley_require", require],
    ["__volley_commonjs", commonjs],
    ["__volley_deliver", (namespace) => void (delivered = namespace)],
  ]) {
    Object.defineProperty(globalThis, name, { value });
  }
})
