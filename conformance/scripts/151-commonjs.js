// CommonJS: require of files and of k6's own modules.
//
// area: modules
// covers: require; module.exports
const http = require('k6/http');
const { check } = require('k6');
const common = require('./lib/common.cjs.js');
const old = require('./lib/old-style.js');
exports.options = { iterations: 2 };
exports.default = function () {
  const res = http.get(`${__ENV.BASE}/`);
  check(res, { ok: (r) => r.status === 200 });
  console.log('RESULT require ' + JSON.stringify([
    common.twice(21), common.name, old.one, old.add(1, 2), res.status,
  ]));
};
