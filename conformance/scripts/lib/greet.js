import { suffix, default as base } from './inner/suffix.js';
export const greet = (name) => `hello ${name}${suffix}`;
export default class Greeter {
  constructor(name) { this.name = name; }
  say() { return greet(this.name) + base(); }
}
export let counter = 0;
export function bump() { counter += 1; return counter; }
