/** Messages of warnings and errors, and those that name the cause of a 503. */
const TELLING = /"level":[456]0|"datastore unavailable"|"temporarily_unavailable"|"Redis availability changed"/;
const MOST_LINES = 8;
const MOST_CHARACTERS = 200;

type Logged = { name: string; log: readonly string[] };

const processes: Logged[] = [];
// The environment of the tests reads it, which lies outside of the module.
(globalThis as { troublesOfProcesses?: () => string }).troublesOfProcesses = () =>
  processes.map(troublesOf).filter(Boolean).join('\n');

/** Shows the log of a process with each test of this file that fails. */
export function showWhenTestsFail(name: string, log: readonly string[]): void {
  processes.push({ name, log });
}

function troublesOf({ name, log }: Logged): string {
  const lines = log.filter((line) => TELLING.test(line)).slice(-MOST_LINES);
  return lines.map((line) => `${name} ${shortened(line)}`).join('\n');
}

function shortened(line: string): string {
  try {
    const { level: _level, process: _process, time, msg, ...rest } = JSON.parse(line) as Record<string, unknown>;
    return `${String(time).slice(11, -1)} ${msg} ${JSON.stringify(rest)}`.slice(0, MOST_CHARACTERS);
  } catch {
    return line.slice(0, MOST_CHARACTERS);
  }
}
