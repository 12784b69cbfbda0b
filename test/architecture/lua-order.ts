/**
 * Reads a script far enough to see in which order it decides and writes. Redis does not roll back, so nothing that can
 * fail may follow the first write: no command that reads, no assert or error, no conversion, no concatenation,
 * arithmetic or comparison, which fail for a missing value.
 */

const WRITES = new Set(
  'DEL HDEL HSET HSETNX PEXPIRE PUBLISH SADD SET SETBIT SETRANGE SPUBLISH UNLINK XADD ZADD ZREM'.split(' '),
);
const READS = new Set(
  (
    'BITCOUNT BITPOS EXISTS GET GETBIT HEXISTS HGET HGETALL HLEN HMGET MGET PTTL STRLEN TIME XINFO XLEN XRANGE XREVRANGE ZCARD ZCOUNT ZMSCORE ZRANGE ZRANGEBYSCORE ' +
    'ZRANK ZSCORE'
  ).split(' '),
);
/** Of the language and its libraries: what fails for a value that is missing or of the wrong form. */
const FALLIBLE = new Set(['assert', 'error', 'tonumber', 'string', 'math', 'select']);
const FALLIBLE_OPERATORS = new Set(['..', '+', '-', '*', '/', '%', '^', '<', '>', '<=', '>=']);

type Event = { kind: 'decides' | 'writes'; what: string } | { kind: 'uses'; what: string };
type Statement =
  | { kind: 'events'; events: Event[] }
  | { kind: 'return'; events: Event[] }
  | { kind: 'branches'; branches: Block[] }
  | { kind: 'loop'; body: Block };
type Block = Statement[];

/** A function of the script, or all of it outside functions (name ''). */
type Body = { name: string; block: Block; tokens: string[] };

/** @param code of a script as it runs, with its includes and without comments. @returns every breach, in words */
export function ordersWrong(code: string): string[] {
  const bodies = bodiesOf(code);
  return [
    ...breaches(
      bodies,
      (event) => event.kind === 'writes',
      (event) => event.kind === 'decides',
      'a write',
    ),
    // The only write that Redis may refuse although the script has written.
    ...breaches(
      bodies,
      (event) => event.kind === 'writes' && event.what !== 'XADD',
      (event) => event.what === 'XADD',
      'another write',
    ),
  ];
}

/** Where the later of two sorts of events comes first. */
function breaches(
  bodies: readonly Body[],
  isLast: (event: Event) => boolean,
  isFirst: (event: Event) => boolean,
  last: string,
): string[] {
  const [writers, deciders] = [closure(bodies, isLast), closure(bodies, isFirst)];
  const problems: string[] = [];
  for (const { name, block } of bodies) {
    walk(block, false, (event, written) => {
      const decides = isFirst(event) || (event.kind === 'uses' && deciders.has(event.what));
      if (written && decides) problems.push(`${name || 'the script'}: ${event.what} after ${last}`);
      return isLast(event) || (event.kind === 'uses' && writers.has(event.what));
    });
  }
  return [...new Set(problems)];
}

/** The source of the script and of those functions only that it uses, each as its tokens. */
export function reachableCode(code: string): string {
  const bodies = bodiesOf(code);
  const used = new Set(['']);
  for (const name of used)
    for (const body of bodies.filter((one) => one.name === name))
      for (const token of body.tokens) if (bodies.some((one) => one.name === token)) used.add(token);
  return bodies
    .filter(({ name }) => used.has(name))
    .map(({ tokens }) => tokens.join(' '))
    .join('\n');
}

/** Whether the script writes at all. */
export function isWriting(code: string): boolean {
  return closure(bodiesOf(code), (event) => event.kind === 'writes').has('');
}

/** Names of functions in which such an event happens, or in one that they use. */
function closure(bodies: readonly Body[], happens: (event: Event) => boolean): Set<string> {
  const found = new Set<string>();
  for (let size = -1; size !== found.size; ) {
    size = found.size;
    for (const { name, block } of bodies) {
      walk(block, false, (event) => {
        if (happens(event) || (event.kind === 'uses' && found.has(event.what))) found.add(name);
        return false;
      });
    }
  }
  return found;
}

/**
 * Goes through the statements in the order in which they run. A branch that ends with a return does not go on behind
 * it; what a loop writes is written before the next time.
 * @param visit is given an event and whether something was written before; returns whether it writes
 * @returns whether something is written at the end
 */
function walk(block: Block, before: boolean, visit: (event: Event, written: boolean) => boolean): boolean {
  let written = before;
  const all = (events: readonly Event[]) => {
    for (const event of events) written = visit(event, written) || written;
  };
  for (const statement of block) {
    if (statement.kind === 'events' || statement.kind === 'return') {
      all(statement.events);
    } else if (statement.kind === 'loop') {
      const first = walk(statement.body, written, visit);
      written = walk(statement.body, first, visit);
    } else {
      const ends = statement.branches.map((branch) => {
        const end = walk(branch, written, visit);
        return end && branch.at(-1)?.kind !== 'return';
      });
      written = ends.some((end) => end) || written;
    }
  }
  return written;
}

const TOKEN = /'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|\d[\w.]*|[A-Za-z_]\w*|\.\.\.|\.\.|==|~=|<=|>=|[^\s]/g;

function bodiesOf(code: string): Body[] {
  const tokens: string[] = [];
  // A condition behind `until` ends with its line.
  const lines: number[] = [];
  for (const [number, line] of code.split('\n').entries())
    for (const [token] of line.matchAll(TOKEN)) {
      tokens.push(token);
      lines.push(number);
    }
  const names = new Set([...code.matchAll(/\blocal function (\w+)/g)].map(([, name]) => String(name)));
  const bodies: Body[] = [];
  let at = 0;
  const main: Body = { name: '', block: [], tokens: [] };
  bodies.push(main);
  main.block = blockUntil([], main);
  return bodies;

  /** Reads statements up to one of these words and stops in front of it. */
  function blockUntil(ends: readonly string[], body: Body): Block {
    const block: Block = [];
    let events: Event[] = [];
    const flush = () => {
      if (events.length > 0) block.push({ kind: 'events', events });
      events = [];
    };
    while (at < tokens.length && !ends.includes(String(tokens[at]))) {
      const token = String(tokens[at]);
      if (token === 'if') {
        flush();
        block.push(...branches(body));
      } else if (token === 'for' || token === 'while') {
        flush();
        at += 1;
        const head = expression(['do'], body);
        at += 1;
        const inside = blockUntil(['end'], body);
        at += 1;
        if (token === 'for') block.push({ kind: 'events', events: head }, { kind: 'loop', body: inside });
        else block.push({ kind: 'loop', body: [{ kind: 'events', events: head }, ...inside] });
      } else if (token === 'repeat') {
        flush();
        at += 1;
        const inside = blockUntil(['until'], body);
        at += 1;
        const condition: Event[] = [];
        for (const line = lines[at]; lines[at] === line; ) condition.push(...piece(body));
        block.push({ kind: 'loop', body: [...inside, { kind: 'events', events: condition }] });
      } else if (token === 'do') {
        at += 1;
        flush();
        block.push(...blockUntil(['end'], body));
        at += 1;
      } else if (token === 'return') {
        flush();
        at += 1;
        block.push({ kind: 'return', events: expression([...ends, 'end', 'else', 'elseif', 'until'], body) });
      } else {
        events.push(...piece(body));
      }
    }
    flush();
    return block;
  }

  /** All conditions are taken to be evaluated, which is stricter than what happens. */
  function branches(body: Body): Block {
    const conditions: Event[] = [];
    const found: Block[] = [];
    while (tokens[at] === 'if' || tokens[at] === 'elseif') {
      at += 1;
      conditions.push(...expression(['then'], body));
      at += 1;
      found.push(blockUntil(['elseif', 'else', 'end'], body));
    }
    if (tokens[at] === 'else') {
      at += 1;
      found.push(blockUntil(['end'], body));
    }
    at += 1;
    return [
      { kind: 'events', events: conditions },
      { kind: 'branches', branches: found },
    ];
  }

  function expression(ends: readonly string[], body: Body): Event[] {
    const events: Event[] = [];
    while (at < tokens.length && !ends.includes(String(tokens[at]))) events.push(...piece(body));
    return events;
  }

  /**
   * One token with what belongs to it: a call with its arguments, which are evaluated before it; a function, which is
   * not run here.
   */
  function piece(body: Body): Event[] {
    const token = String(tokens[at]);
    const previous = tokens[at - 1];
    if (lines[at] !== lines[at - 1]) body.tokens.push('\n');
    body.tokens.push(token);
    at += 1;
    if (token === 'function') return functionBody(body);
    if (token === 'redis' && tokens[at] === '.' && tokens[at + 1] === 'call') {
      const command = String(tokens[at + 3]).slice(1, -1);
      body.tokens.push('.', 'call');
      at += 2;
      return [...callArguments(body), commandEvent(command, tokens[at])];
    }
    if (previous !== '.' && tokens[at] !== '=' && names.has(token)) {
      const given = tokens[at] === '(' ? callArguments(body) : [];
      return [...given, { kind: 'uses', what: token }];
    }
    if (previous !== '.' && FALLIBLE.has(token)) return [{ kind: 'decides', what: token }];
    if (FALLIBLE_OPERATORS.has(token)) return [{ kind: 'decides', what: `the operator ${token}` }];
    return [];
  }

  function callArguments(body: Body): Event[] {
    const events: Event[] = [];
    let depth = 0;
    do {
      if (tokens[at] === '(') depth += 1;
      if (tokens[at] === ')') depth -= 1;
      events.push(...piece(body));
    } while (depth > 0 && at < tokens.length);
    return events;
  }

  function functionBody(outer: Body): Event[] {
    const name = tokens[at] === '(' ? '' : String(tokens[at]);
    if (name) at += 1;
    while (tokens[at] !== ')') at += 1;
    at += 1;
    const inner: Body = { name: name || outer.name, block: [], tokens: [] };
    bodies.push(inner);
    inner.block = blockUntil(['end'], inner);
    at += 1;
    return [];
  }
}

function commandEvent(command: string, next: string | undefined): Event {
  if (WRITES.has(command)) return { kind: 'writes', what: command };
  if (READS.has(command)) return { kind: 'decides', what: command };
  throw new Error(`${command} is in neither list of commands (before ${next})`);
}
