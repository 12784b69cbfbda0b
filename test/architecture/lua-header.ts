/** What the header of a script says (lua/README.md). */
export type LuaHeader = {
  purpose: string;
  keys: string[];
  /** The last key may come any number of times. */
  variadicKeys: boolean;
  args: string[];
  /** The last argument may come any number of times. */
  variadic: boolean;
  /** Kind of reply → names of its fields. */
  replies: Map<string, string[]>;
  journals: string[];
  /** Of a script that is given JSON: names in the argument, names in each of its requests, kind of decision → names. */
  input: string[];
  request: string[];
  decisions: Map<string, string[]>;
};

/** @throws Error when the script has no header, or one without its parts */
export function readHeader(source: string): LuaHeader {
  const lines = source
    .slice(0, /^(?!--)/m.exec(source)?.index ?? 0)
    .split('\n')
    .map((line) => line.replace(/^-- ?/, ''));
  const parts = new Map<string, string[]>([['purpose', []]]);
  let part = 'purpose';
  for (const line of lines) {
    const [, whole, begun, rest = ''] =
      /^(KEYS|ARGV|INPUT|REQUEST|REPLY|DECISION|JOURNALS)$|^(KEYS|JOURNALS) (.*)$/.exec(line) ?? [];
    const name = whole ?? begun;
    if (name) {
      part = name;
      parts.set(name, rest ? [rest] : []);
    } else if (line.trim()) {
      parts.get(part)?.push(line);
    }
  }
  const of = (name: string): string[] => {
    const found = parts.get(name);
    if (!found || found.length === 0) throw new Error(`the header has no ${name}`);
    return found;
  };
  const namesIn = (lines: readonly string[]) => entriesOf(lines).flatMap((entry) => entry.split(' '));
  const repliesIn = (lines: readonly string[]) =>
    new Map(
      entriesOf(lines)
        .flatMap((entry) => entry.split(' | '))
        .map((entry) => entry.split(' '))
        .map(([kind, ...fields]) => [String(kind), fields]),
    );
  const args = namesIn(of('ARGV'));
  const keys = of('KEYS').join(' ').split(', ');
  return {
    purpose: of('purpose').join(' '),
    keys: keys.map((name) => name.replace(/\.\.\.$/, '')),
    variadicKeys: keys.at(-1)?.endsWith('...') ?? false,
    args: args.map((name) => name.replace(/\.\.\.$/, '')),
    variadic: args.at(-1)?.endsWith('...') ?? false,
    replies: repliesIn(of('REPLY')),
    journals: journaledKinds(of('JOURNALS').join(' ')),
    input: namesIn(parts.get('INPUT') ?? []),
    request: namesIn(parts.get('REQUEST') ?? []),
    decisions: repliesIn(parts.get('DECISION') ?? []),
  };
}

/** Lines with two blanks before them begin an entry, deeper ones go on with it; what follows two blanks is explanation. */
function entriesOf(lines: readonly string[]): string[] {
  return lines.filter((line) => /^ {2}\S/.test(line)).map((line) => String(line.slice(2).split(/ {2,}/)[0]));
}

/** `redeemed, reserved (the next in line)`, or `nothing` and why. */
function journaledKinds(text: string): string[] {
  const list = String(text.replace(/\([^)]*\)/g, '').split(/[.:]/)[0]);
  if (list.trim() === 'nothing') return [];
  return list.split(',').map((kind) => kind.trim());
}

/** The script as it runs, without its comments. */
export const codeOf = (inlined: string): string => inlined.replace(/--[^\n]*/g, '');

/** How many keys and arguments the script takes; `exact` unless it takes any number up to one. */
export function arityOf(source: string): { keys: number; exactKeys: boolean; args: number; exact: boolean } {
  const found =
    /^assert\(#KEYS (==|<=|>=) (\d+) and #ARGV (==|<=) (\d+), '(\w+) takes (at most |at least )?(\d+) keys? and (at most )?(\d+) \w+'\)$/m.exec(
      codeOf(source),
    );
  if (!found) throw new Error('there is no assert on the arity');
  const [, keysSign, keys, sign, args, , , saidKeys, , saidArgs] = found;
  if (keys !== saidKeys || args !== saidArgs) throw new Error('the assert says other numbers than it checks');
  return { keys: Number(keys), exactKeys: keysSign === '==', args: Number(args), exact: sign === '==' };
}

/**
 * Kinds of entries that the code appends: as literals, or through give_back and append_change, which are given the kind.
 * @param code without the functions that the script does not use (reachableCode)
 */
export function appendedKinds(code: string): string[] {
  const kinds = [...code.matchAll(/'kind'\s*,\s*'(\w+)'/g)].map(([, kind]) => String(kind));
  const given = [
    ...code.matchAll(/(?<!function )\bgive_back\s*\((?:[^,]+,){3}\s*([^,]+),/g),
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
