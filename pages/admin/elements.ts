export type Attributes = Record<string, string | number | boolean | undefined>;
type Child = Node | string | null;

/** Creates an element. `true` sets an attribute without a value; `false` and `undefined` leave it out. */
export function el<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[Tag] {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== false) made.setAttribute(name, value === true ? '' : String(value));
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

/** A button with an action. It is inactive while the action runs, so that the action does not run twice. */
export function button(
  label: string,
  press: () => Promise<void> | void,
  attributes: Attributes = {},
): HTMLButtonElement {
  const made = el('button', { type: 'button', ...attributes }, label);
  made.addEventListener('click', async () => {
    if (made.getAttribute('aria-disabled') === 'true') return;
    // Not `disabled`, because that would lose the focus.
    made.setAttribute('aria-disabled', 'true');
    try {
      await press();
    } finally {
      made.removeAttribute('aria-disabled');
    }
  });
  return made;
}

/** The head of a table: a heading with attributes for each column. */
export function tableHead(columns: readonly (readonly [string | Node, Attributes?])[]): HTMLElement {
  const heads = columns.map(([heading, attributes]) =>
    el('th', { scope: 'col', role: 'columnheader', ...attributes }, heading),
  );
  return el('thead', { role: 'rowgroup' }, el('tr', { role: 'row' }, ...heads));
}

/** Changes a text only if it differs, so that screen readers and the selection are not disturbed. */
export function write(target: HTMLElement, text: string): void {
  if (target.textContent !== text) target.textContent = text;
}

/** A section of a view, with its heading. */
export function card(title: string, attributes: Attributes, ...children: Child[]): HTMLElement {
  const id = `card-${title.toLowerCase().replace(/\W+/g, '-')}`;
  return el(
    'section',
    { ...attributes, class: `card ${attributes.class ?? ''}`.trim(), 'aria-labelledby': id },
    el('h2', { id }, title),
    ...children,
  );
}

/** A message that a screen reader announces and the page shows for a while. */
export function say(text: string): void {
  const said = document.getElementById('said') as HTMLElement;
  said.textContent = text;
  clearTimeout(hiding);
  hiding = setTimeout(() => {
    said.textContent = '';
  }, SAID_MS);
}
const SAID_MS = 8_000;
let hiding: ReturnType<typeof setTimeout> | undefined;
