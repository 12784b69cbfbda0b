import { button, el } from './elements.js';
import type { Form } from './fields.js';

/** Asks for confirmation before an action that cannot be undone. @returns whether the operator confirmed it */
export function confirmed(title: string, text: string, yes: string): Promise<boolean> {
  return decision(title, el('p', {}, text), yes, 'danger');
}

/** Asks for confirmation of what the content shows. @returns whether the operator confirmed it */
export function confirmedWith(title: string, content: HTMLElement, yes: string): Promise<boolean> {
  return decision(title, content, yes, 'main');
}

/** Shows a content until the operator closes it. */
export function notice(title: string, content: HTMLElement, done: string): Promise<void> {
  return new Promise((resolve) => {
    const dialog = frame(title, content);
    dialog.append(
      el(
        'p',
        { class: 'buttons' },
        button(done, () => dialog.close(), { class: 'main' }),
      ),
    );
    open(dialog, resolve);
  });
}

function decision(title: string, content: HTMLElement, yes: string, kind: 'danger' | 'main'): Promise<boolean> {
  return new Promise((resolve) => {
    let answer = false;
    const dialog = frame(title, content);
    const decide = (decision: boolean) => () => {
      answer = decision;
      dialog.close();
    };
    dialog.append(
      el('p', { class: 'buttons' }, button(yes, decide(true), { class: kind }), button('Cancel', decide(false))),
    );
    open(dialog, () => resolve(answer));
  });
}

/** Shows a form in a dialog until it is sent or cancelled. @param build receives a function that closes the dialog */
export function ask(title: string, build: (close: () => void) => Form): void {
  const dialog = frame(title);
  const form = build(() => dialog.close());
  form.root.querySelector('.buttons')?.append(button('Cancel', () => dialog.close()));
  dialog.append(form.root);
  open(dialog, () => {});
}

function frame(title: string, ...content: Node[]): HTMLDialogElement {
  const id = 'dialog-title';
  return el('dialog', { 'aria-labelledby': id }, el('h2', { id }, title), ...content);
}

function open(dialog: HTMLDialogElement, closed: () => void): void {
  const before = document.activeElement;
  dialog.addEventListener('close', () => {
    dialog.remove();
    if (before instanceof HTMLElement && before.isConnected) before.focus();
    closed();
  });
  document.body.append(dialog);
  dialog.showModal();
}
