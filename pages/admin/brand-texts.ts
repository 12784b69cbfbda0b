import { LANGUAGES } from '../../shared/sale-page/languages.js';
import { en } from '../../shared/sale-page/texts.js';
import { Refused } from './calls.js';
import { button, el } from './elements.js';
import { type Field, field, textOf } from './fields.js';

type Texts = Record<string, Record<string, string>>;
type Row = { root: HTMLElement; language: Field; name: Field; text: Field };

/** The texts that a campaign may replace: name → the English one, by which an operator recognizes it. */
const CHOICES: Record<string, string> = Object.fromEntries(
  Object.entries(en).flatMap(([name, text]) => (typeof text === 'string' ? [[name, text]] : [])),
);

export type BrandTexts = {
  root: HTMLElement;
  fields(): Field[];
  /** The texts by language; null = none. @throws Refused if a text is given twice */
  value(): Texts | null;
  fill(texts: Texts): void;
};

/** A row for each text of the sale page that the campaign replaces: its language, which text, and the new one. */
export function brandTexts(): BrandTexts {
  let rows: Row[] = [];
  const list = el('div', { class: 'rows' });
  const languages = el(
    'datalist',
    { id: 'languages' },
    ...Object.entries(LANGUAGES).map(([tag, { name }]) => el('option', { value: tag }, name)),
  );
  const add = (language: string, name: string, text: string): Row => {
    const row = makeRow(language, name, text, () => {
      rows = rows.filter((one) => one !== row);
      row.root.remove();
      adding.focus();
    });
    rows.push(row);
    list.append(row.root);
    return row;
  };
  const adding = button('Add a text', () => {
    const last = rows.at(-1);
    add(last ? textOf(last.language) : 'en', 'buy', '').language.input.focus();
  });
  // Errors of all texts together, such as too many languages, are shown below the rows.
  const all = field({ pointer: '#/branding/texts', label: '' });
  return {
    root: el(
      'fieldset',
      {},
      el('legend', {}, 'Words of the page'),
      el('p', { class: 'hint' }, 'Replace a text in a language. A language that the page lacks is added.'),
      list,
      el('p', { class: 'buttons' }, adding),
      all.error,
      languages,
    ),
    fields: () => [...rows.flatMap(fieldsOf), { ...all, root: adding }],
    value() {
      if (rows.length === 0) return null;
      const texts: Texts = {};
      for (const row of rows) {
        const [language, name] = [textOf(row.language), textOf(row.name)];
        const own = Object.hasOwn(texts, language) ? texts[language] : undefined;
        if (own && Object.hasOwn(own, name))
          throw new Refused(400, 'invalid_request', '', [
            { pointer: fieldsOf(row)[1]?.pointer ?? '', detail: `This text is given twice in ${language}` },
          ]);
        texts[language] = { ...own, [name]: textOf(row.text) };
      }
      return texts;
    },
    fill(texts) {
      for (const { root } of rows) root.remove();
      rows = [];
      for (const [language, own] of Object.entries(texts))
        for (const [name, text] of Object.entries(own)) add(language, name, text);
    },
  };
}

function makeRow(language: string, name: string, text: string, remove: () => void): Row {
  // A name that this page does not know stays a choice, so that it is kept.
  const options = Object.hasOwn(CHOICES, name) ? CHOICES : { ...CHOICES, [name]: name };
  const row = {
    language: field({
      pointer: '',
      label: 'Language',
      hint: 'Such as en or ar.',
      attributes: { list: 'languages', value: language },
    }),
    name: field({ pointer: '', label: 'Which text', options }),
    text: field({ pointer: '', label: 'Instead', attributes: { value: text } }),
  };
  row.name.input.value = name;
  const root = el(
    'div',
    { class: 'row', role: 'group', 'aria-label': 'A text of the page' },
    row.language.root,
    row.name.root,
    row.text.root,
    button('Remove', remove, { class: 'plain' }),
  );
  return { ...row, root };
}

/** The fields of a row with the pointers of what is typed now. Two rows of a language share its pointer. */
function fieldsOf({ language, name, text }: Row): Field[] {
  const own = `#/branding/texts/${textOf(language).replaceAll('~', '~0').replaceAll('/', '~1')}`;
  return [
    { ...language, pointer: own },
    { ...text, pointer: `${own}/${textOf(name)}` },
  ];
}
