/** The script as it runs, without its comments. */
export const codeOf = (inlined: string): string => inlined.replace(/--[^\n]*/g, '');

/**
 * Kinds of entries that the code appends: as literals, or through return_units and append_change, which are given the
 * kind.
 * @param code without the functions that the script does not use (reachableCode)
 */
export function appendedKinds(code: string): string[] {
  const kinds = [...code.matchAll(/'kind'\s*,\s*'(\w+)'/g)].map(([, kind]) => String(kind));
  // A promise of a packed entry begins with its kind.
  kinds.push(...[...code.matchAll(/'(\w+)\\t' \.\. /g)].map(([, kind]) => String(kind)));
  const given = [
    ...code.matchAll(/(?<!function )\breturn_units\s*\((?:[^,]+,){3}\s*([^,]+),/g),
    ...code.matchAll(/(?<!function )\bappend_change\s*\(([^,]+),/g),
  ];
  for (const found of given) kinds.push(...wordsOf(code, String(found[1]).trim(), found.index));
  return [...new Set(kinds)].sort();
}

/** The words that an expression may be: a literal, or a variable that the line asks for or that was given literals. */
function wordsOf(code: string, expression: string, index: number): string[] {
  const literals = (text: string) => [...text.matchAll(/'(\w+)'/g)].map(([, word]) => String(word));
  if (expression.startsWith("'")) return literals(expression);
  const line = code.slice(code.lastIndexOf('\n', index) + 1, index);
  const asked = [...line.matchAll(new RegExp(`\\b${expression} == '(\\w+)'`, 'g'))].map(([, word]) => String(word));
  const words = asked.length > 0 ? asked : literals(new RegExp(`local ${expression} =([^\\n]*)`).exec(code)?.[1] ?? '');
  if (words.length === 0) throw new Error(`it is not plain what ${expression} may be`);
  return words;
}

/** First words of every reply: tables that are returned, given to `apply`, or named `reply`. */
export const returnedKinds = (code: string): string[] => [
  ...new Set([...code.matchAll(/(?:return|reply =|apply\(plan,) \{ '(\w+)'/g)].map(([, kind]) => String(kind))),
];

/** Kinds of decisions about one request of a call. */
export const decidedKinds = (code: string): string[] => [
  ...new Set([...code.matchAll(/\{ kind = '(\w+)'|"kind":"(\w+)"/g)].map(([, kind, json]) => String(kind ?? json))),
];
