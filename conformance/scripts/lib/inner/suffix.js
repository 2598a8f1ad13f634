export const suffix = '!';
export default function base() { return '?'; }
