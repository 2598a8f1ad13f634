const twice = (x) => x * 2;
module.exports = { twice, name: 'common', dir: typeof __dirname };
