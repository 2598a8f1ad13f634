exports.one = 1;
exports.add = function (a, b) { return a + b; };
