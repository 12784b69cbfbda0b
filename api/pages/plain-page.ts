import { escapeHtml } from './sale-html.js';

const STYLE =
  'body{font:16px/1.6 system-ui,sans-serif;max-width:44rem;margin:3rem auto;padding:0 1rem;color:#1b1b1f;background:#fff}' +
  'a{color:#0b57d0}code,pre{background:#f1f1f4;padding:.1em .3em;border-radius:4px}pre{padding:.8em;overflow:auto}' +
  'th{text-align:start}td,th{padding:.2em .8em .2em 0;vertical-align:top}' +
  '@media(prefers-color-scheme:dark){body{color:#e8e8ea;background:#161618}a{color:#8ab4f8}code,pre{background:#2a2a2e}}';

/**
 * Returns a page of text.
 * @param body HTML whose values are escaped
 */
export function plainPage(title: string, body: string): Buffer {
  return Buffer.from(
    `<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>${escapeHtml(title)}</title>` +
      `<meta name="viewport" content="width=device-width, initial-scale=1"><style>${STYLE}</style></head>` +
      `<body><main><h1>${escapeHtml(title)}</h1>\n${body}\n</main></body></html>\n`,
  );
}
