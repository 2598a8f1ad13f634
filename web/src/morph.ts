// Puts new markup in the place of old without disturbing what has not changed: what is open stays
// open, what is scrolled stays scrolled, what has the focus keeps it.
//
// The markup is the server's, made and escaped by the same code as the report's.

export function morph(place: Element, html: string): void {
  const template = document.createElement("template");
  template.innerHTML = html;
  children(place, template.content);
}

function children(old: Node, next: Node): void {
  const wanted = [...next.childNodes];
  wanted.forEach((node, number) => {
    const known = old.childNodes[number];
    if (!known) old.appendChild(node);
    else if (known.nodeType !== node.nodeType || known.nodeName !== node.nodeName) old.replaceChild(node, known);
    else if (known instanceof Element) element(known, node as Element);
    else if (known.nodeValue !== node.nodeValue) known.nodeValue = node.nodeValue;
  });
  while (old.childNodes.length > wanted.length) old.lastChild?.remove();
}

function element(old: Element, next: Element): void {
  for (const { name } of [...old.attributes]) if (name !== "open" && !next.hasAttribute(name)) old.removeAttribute(name);
  for (const { name, value } of [...next.attributes]) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  children(old, next);
}
