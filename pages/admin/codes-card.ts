import { call, Refused, upload } from './calls.js';
import { button, card, el, say, write } from './elements.js';
import { Form, field, numberOf, textOf } from './fields.js';
import { rememberedInTab } from './remembered.js';
import { may, roleNote } from './role.js';
import { count } from './words.js';

type CodeJob = {
  id: string;
  kind: string;
  status: 'waiting' | 'running' | 'done' | 'failed';
  total: number;
  processed: number;
  progress: number;
  added: number;
  duplicates: number;
  bad_lines: number;
  errors: { line: number; detail: string }[];
  errors_omitted: number;
  failure: string | null;
};

const LOOK_EVERY_MS = 500;

/**
 * Generates, imports and exports the codes of a campaign, and shows the progress. A job continues without the page, and
 * a reload finds it again.
 */
export function codesCard(path: string): { root: HTMLElement; close(): void } {
  if (!may('marketer'))
    return { root: card('Codes', {}, roleNote('Generating and exporting codes', 'marketer')), close: () => {} };
  const remembered = `doorbuster|codes|${path}`;
  const amount = field({ pointer: '#/count', label: 'How many', attributes: { inputmode: 'numeric', value: '1000' } });
  const prefix = field({ pointer: '#/prefix', label: 'Prefix', hint: 'Optional; up to 16 letters and digits.' });
  const file = field({
    pointer: '#/file',
    label: 'CSV file',
    hint: 'Lines of code[,user_id], of any length.',
    attributes: { type: 'file', accept: '.csv,text/csv,text/plain' },
  });
  const bar = el('progress', { max: 1, value: 0, 'aria-label': 'Progress of the codes' });
  const text = el('p', { role: 'status' });
  const wrong = el('ul', { class: 'wrong' });
  const progress = el('div', { class: 'job', hidden: true }, bar, text, wrong);
  let timer: ReturnType<typeof setTimeout> | undefined;
  let isClosed = false;

  const generate = new Form(
    [amount, prefix],
    [el('div', { class: 'pair' }, amount.root, prefix.root)],
    'Generate',
    async () => {
      follow(await call<CodeJob>('POST', `${path}/codes`, { count: numberOf(amount) ?? null, prefix: textOf(prefix) }));
    },
  );
  const importing = new Form([file], [file.root], 'Import', async () => {
    const [chosen] = (file.input as HTMLInputElement).files ?? [];
    if (!chosen) throw new Refused(400, 'invalid_request', '', [{ pointer: '#/file', detail: 'Choose a file' }]);
    progress.hidden = false;
    const job = await upload<CodeJob>(`${path}/codes`, chosen, (part) => {
      bar.value = part;
      write(text, `Uploading ${chosen.name}: ${Math.floor(part * 100)} %`);
    }).finally(() => {
      progress.hidden = true;
    });
    file.input.value = '';
    follow(job);
  });

  function follow(job: CodeJob): void {
    rememberedInTab.setItem(remembered, job.id);
    show(job);
    clearTimeout(timer);
    if (isClosed || job.status === 'done' || job.status === 'failed') return;
    timer = setTimeout(() => look(job.id), LOOK_EVERY_MS);
  }

  async function look(id: string): Promise<void> {
    try {
      follow(await call<CodeJob>('GET', `${path}/codes/jobs/${id}`));
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      if (error.status === 404) rememberedInTab.removeItem(remembered);
      // The page itself reports that the connection is lost. The job continues.
      else if (!isClosed) timer = setTimeout(() => look(id), LOOK_EVERY_MS * 4);
    }
  }

  function show(job: CodeJob): void {
    progress.hidden = false;
    bar.value = job.progress;
    write(text, jobText(job));
    const lines = job.errors.slice(0, 10).map(({ line, detail }) => el('li', {}, `Line ${count(line)}: ${detail}`));
    const others = job.errors.length - lines.length + job.errors_omitted;
    wrong.replaceChildren(...lines, ...(others > 0 ? [el('li', {}, `and ${count(others)} more`)] : []));
    if (job.status === 'done' && !isClosed) say(jobText(job));
  }

  const known = rememberedInTab.getItem(remembered);
  if (known) look(known);
  return {
    root: card(
      'Codes',
      {},
      el('h3', {}, 'Generate'),
      generate.root,
      el('h3', {}, 'Import'),
      importing.root,
      progress,
      el(
        'p',
        { class: 'buttons' },
        el('a', { class: 'button', href: `${path}/codes`, download: true }, 'Export as CSV'),
        button('Forget this job', () => forget(), { class: 'plain' }),
      ),
    ),
    close() {
      isClosed = true;
      clearTimeout(timer);
    },
  };

  function forget(): void {
    rememberedInTab.removeItem(remembered);
    clearTimeout(timer);
    progress.hidden = true;
  }
}

function jobText({ kind, status, total, processed, added, duplicates, bad_lines, failure }: CodeJob): string {
  const verb = kind === 'generate' ? 'generated' : 'imported';
  if (status === 'failed') return `The job failed: ${failure ?? 'unknown reason'}.`;
  if (status !== 'done') return `${count(processed)} of ${count(total)} codes ${verb}.`;
  const left = duplicates + bad_lines;
  const leftOut = left > 0 ? ` ${count(duplicates)} were issued before, ${count(bad_lines)} lines are not codes.` : '';
  return `Done: ${count(added)} codes ${verb}.${leftOut}`;
}
