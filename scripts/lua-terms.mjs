// The parts of lua/includes/campaign.lua that follow from the table of terms. Written by `npm run docs`.

const WIDTH = 118;

/** @typedef {import('../shared/domain/terms.js').TextField} TextField */

/**
 * Puts the terms into the parts of the file that are marked with their name.
 * @param {string} lua the file as it is
 * @param {readonly TextField[]} fields of the text of the terms, in their order
 * @returns the file as it has to be
 */
export function withTerms(lua, fields) {
  const parts = { 'the text of the terms': textOf(fields), 'the terms': valuesOf(fields) };
  return Object.entries(parts).reduce((text, [name, code]) => {
    const part = new RegExp(`( *-- Made by \`npm run docs\`: ${name}\n)[\\s\\S]*?\n( *-- Until here\n)`);
    if (!part.test(text)) throw new Error(`lua/includes/campaign.lua lacks the part "${name}"`);
    return text.replace(part, (_, /** @type {string} */ begin, /** @type {string} */ end) => `${begin}${code}\n${end}`);
  }, lua);
}

/** @param {readonly TextField[]} fields */
function textOf(fields) {
  const names = ['version', ...fields.map(({ field }) => field)];
  const inHash = fields.map(({ field, missing }) => `f.${field} or '${missing}'`);
  return `local function terms_text(v)
${wrapped(
  '  return ',
  names.map((name) => `v.${name}`),
  " .. '|' ..",
)}
end
local terms_pattern = '^${joined(names.map(() => '([^|]*)'))}$'

-- Returns the terms in \`text\` if it has this version and the expected number of terms, else those in the fields.
local function terms_in(text, version, key)
  if text and string.sub(text, 1, #version + 1) == version .. '|' then
${wrapped(
  '    local ',
  names.map((name) => (name === 'version' ? 'found' : name)),
  ',',
)} =
      string.match(text, terms_pattern)
${wrapped('    if found then return ', names, ',')} end
  end
  local flat, f = redis.call('HGETALL', key), {}
  for i = 1, #flat, 2 do f[flat[i]] = flat[i + 1] end
${wrapped('  return ', ['version', ...inHash], ',')}
end`;
}

/** @param {readonly TextField[]} fields */
function valuesOf(fields) {
  const names = ['version', ...fields.map(({ field }) => field)];
  return `${wrapped('  local ', names, ',')} =
    terms_in(v[1], v[3], key)
  return {
${wrapped(
  '    ',
  fields.map(({ field, kind }) => `${field} = ${READ[kind](field)}`),
  ',',
)},`;
}

/** The expression that makes a value of a field's text. @type {Record<TextField['kind'], (field: string) => string>} */
const READ = {
  int: (field) => `tonumber(${field})`,
  flag: (field) => `${field} == '1'`,
  text: (field) => field,
  version: (field) => `${field} == version`,
};

/** Parts of a pattern, in texts of ten. @param {readonly string[]} parts */
function joined(parts) {
  return parts.map((part, i) => (i === 0 ? part : i % 10 === 0 ? `|' ..\n  '${part}` : `|${part}`)).join('');
}

/**
 * A list in lines of at most WIDTH columns.
 * @param {string} begin
 * @param {readonly string[]} items
 * @param {string} separator
 */
function wrapped(begin, items, separator) {
  const indent = `${/^ */.exec(begin)?.[0]}  `;
  const lines = [];
  let line = begin;
  for (const [i, item] of items.entries()) {
    const text = i < items.length - 1 ? `${item}${separator} ` : item;
    if (line !== begin && line.length + text.trimEnd().length > WIDTH) {
      lines.push(line.trimEnd());
      line = indent;
    }
    line += text;
  }
  return [...lines, line].join('\n');
}
