import { Refused } from './calls.js';
import { button, el } from './elements.js';
import type { FieldOptions } from './term-fields.js';

export type Field = {
  root: HTMLElement;
  input: HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement;
  /** JSON pointer of the field in the request, as in problem documents. */
  pointer: string;
  error: HTMLElement;
};

let made = 0;

/** A labelled input with space for an error. */
export function field({ pointer, label, hint, attributes = {}, options }: FieldOptions): Field {
  made += 1;
  const id = `field-${made}`;
  const error = el('p', { id: `${id}-error`, class: 'error' });
  const described = `${hint ? `${id}-hint ` : ''}${id}-error`;
  const common = { id, 'aria-describedby': described, ...attributes };
  const input = options
    ? el('select', common, ...Object.entries(options).map(([value, text]) => el('option', { value }, text)))
    : attributes.rows
      ? el('textarea', { autocomplete: 'off', spellcheck: 'false', ...common })
      : el('input', { type: 'text', autocomplete: 'off', spellcheck: 'false', ...common });
  const isCheck = attributes.type === 'checkbox';
  const name = el('label', { for: id }, label);
  const hintText = hint ? el('p', { id: `${id}-hint`, class: 'hint' }, hint) : null;
  const root = isCheck
    ? el('div', { class: 'field check' }, input, name, hintText, error)
    : el('div', { class: 'field' }, name, input, hintText, error);
  return { root, input, pointer, error };
}

export const textOf = ({ input }: Field): string => input.value.trim();

/** Parses a typed number. Other text is returned unchanged, so that the service reports the error. */
export function numberOf(from: Field): number | string | undefined {
  const text = textOf(from);
  if (text === '') return undefined;
  return /^-?\d+(\.\d+)?$/.test(text) ? Number(text) : text;
}

/** The value of a field in the form that the service expects; undefined = no number or time was typed. */
export function valueIn(from: Field): string | number | boolean | undefined {
  const { type, inputMode } = from.input;
  if (type === 'checkbox') return (from.input as HTMLInputElement).checked;
  if (inputMode !== '') return numberOf(from);
  const text = textOf(from);
  if (type !== 'datetime-local') return text;
  // Browsers omit seconds if they are 0.
  return text === '' ? undefined : `${text}${text.length === 16 ? ':00' : ''}`;
}

/** @throws Refused if the text of a field is not JSON */
export function jsonIn(from: Field): unknown {
  try {
    return JSON.parse(textOf(from));
  } catch {
    throw new Refused(400, 'invalid_request', '', [{ pointer: from.pointer, detail: 'This is not JSON' }]);
  }
}

/** A form that shows the errors of the service next to its fields. */
export class Form {
  readonly root: HTMLFormElement;
  readonly #summary = el('p', { class: 'summary error', role: 'alert' });

  constructor(
    /** A function for fields that come and go. */
    readonly fields: readonly Field[] | (() => readonly Field[]),
    content: readonly Node[],
    submitLabel: string,
    send: () => Promise<void>,
    more: readonly Node[] = [],
  ) {
    const submit = button(submitLabel, () => this.#submit(send), { type: 'submit', class: 'main' });
    this.root = el(
      'form',
      { novalidate: true },
      ...content,
      this.#summary,
      el('p', { class: 'buttons' }, submit, ...more),
    );
    // The button sends the form. Enter presses the button.
    this.root.addEventListener('submit', (event) => event.preventDefault());
  }

  async #submit(send: () => Promise<void>): Promise<void> {
    this.show([], '');
    try {
      await send();
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      this.show(error.errors, error.errors.length > 0 ? '' : error.message);
    }
  }

  /** Errors of fields that the form does not have are shown above the button. */
  show(errors: Refused['errors'], summary: string): void {
    const left = new Set(errors);
    let first: Field | null = null;
    const fields = typeof this.fields === 'function' ? this.fields() : this.fields;
    const exact = new Set(fields.map(({ pointer }) => pointer));
    for (const one of fields) {
      const own = errors.filter(
        ({ pointer }) => pointer === one.pointer || (pointer.startsWith(`${one.pointer}/`) && !exact.has(pointer)),
      );
      for (const error of own) left.delete(error);
      one.error.textContent = own.map(({ detail }) => sentence(detail)).join(' ');
      if (own.length > 0) one.input.setAttribute('aria-invalid', 'true');
      else one.input.removeAttribute('aria-invalid');
      if (own.length > 0) first ??= one;
    }
    const others = [...left].map(({ pointer, detail }) => `${pointer.replace(/^#\/?/, '')} ${detail}`.trim());
    this.#summary.textContent = [summary, ...others.map(sentence)].filter(Boolean).join(' ');
    if (!first) return;
    const folded = first.root.closest('details');
    if (folded) folded.open = true;
    first.input.focus();
  }
}

const sentence = (text: string): string =>
  `${text.charAt(0).toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? '' : '.'}`;
