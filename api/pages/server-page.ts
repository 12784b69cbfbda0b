import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { projectRoot } from '../../shared/config/project-root.js';
import { escapeHtml } from './sale-html.js';

/**
 * Makes a page of the server itself: the landing page, or that of an error code.
 * @param title plain text
 * @param body HTML whose values are escaped
 * @param look `plain`: one sentence in the middle, without a head
 */
export type ServerPage = (title: string, body: string, look?: 'plain') => Buffer;

const DOOR = 'M1 23V10a9 9 0 0 1 18 0v13z';

/** Reads the template of the pages, which names their styles and their script. */
export async function readServerPage(): Promise<ServerPage> {
  const template = await readFile(join(projectRoot(), 'dist/pages/server/server.html'), 'utf8');
  return (title, body, look) => {
    const parts: Record<string, string> = {
      '{{title}}': escapeHtml(title),
      '{{{look}}}': look ? ` class="${look}"` : '',
      '{{{body}}}': body,
    };
    return Buffer.from(template.replace(/\{\{(?:title|\{(?:look|body)\})\}\}/g, (name) => parts[name] ?? ''));
  };
}

/** The head of a page: the name of the server, and links. @param mark said beside the name */
export function pageHead(links: readonly (readonly [path: string, label: string])[], mark = ''): string {
  const badge = mark ? `<span class="badge">${escapeHtml(mark)}</span>` : '';
  return `<header>
<a class="brand" href="/"><svg width="20" height="24" viewBox="0 0 20 24" aria-hidden="true"><path d="${DOOR}"/><path d="M6 23V11a4 4 0 0 1 8 0v12z"/></svg>Doorbuster</a>
${badge}<nav aria-label="Main">${links.map(([path, label]) => `<a href="${path}">${label}</a>`).join('')}</nav>
</header>`;
}

/** Facts side by side. @param facts `html`: with escaped values; `tone`: the colour and shape of the mark */
export function factsHtml(facts: readonly { name: string; html: string; tone?: 'good' | 'bad' }[]): string {
  const items = facts.map(
    ({ name, html, tone = '' }) => `<div class="${tone}"><dt>${escapeHtml(name)}</dt><dd>${html}</dd></div>`,
  );
  return `<dl class="strip">${items.join('\n')}</dl>`;
}

/** A text in a dark frame with a button that copies it. @param id of the text in the page */
export function codeHtml(id: string, caption: string, text: string): string {
  return `<div class="code">
<p><span>${escapeHtml(caption)}</span>${copyButton(id, caption)}</p>
<pre id="${id}" tabindex="0" role="region" aria-label="${escapeHtml(caption)}">${escapeHtml(text)}</pre>
</div>`;
}

/** A button that copies the text of an element. The script of the page shows it. */
export function copyButton(id: string, what: string): string {
  return `<button class="copy" type="button" data-copies="${id}" aria-label="Copy: ${escapeHtml(what)}" hidden>Copy</button>`;
}

/** What a server says at an address that is for nothing. */
export const NOTHING_HERE = `<main><div>
<svg viewBox="0 0 20 24" aria-hidden="true"><path d="${DOOR}"/><path d="M6 23V11a4 4 0 0 1 8 0v12"/></svg>
<h1>This address has no page of its own</h1>
<p class="lead">This server runs sales for a shop. Open the link that the shop sent to you.</p>
</div></main>`;
