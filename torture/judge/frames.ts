import { type Facts, grouped } from './facts.js';
import type { Violation } from './violation.js';

/** Rule 8, for WebSockets: frames are JSON with `type`, `seq` and `time`, and `welcome` comes first. */
export function framesAreRight(facts: Facts): Violation[] {
  return [...grouped(facts.frames, ({ socket }) => socket).values()].flatMap((frames) => {
    const [first] = frames;
    const wrong = frames.find(({ text }) => {
      const frame = parse(text);
      return typeof frame.type !== 'string' || typeof frame.seq !== 'number' || typeof frame.time !== 'string';
    });
    if (wrong) return [{ rule: 'frames', what: 'a frame is malformed', evidence: [wrong] }];
    const type = parse(first?.text ?? '').type;
    const opens = type === 'welcome' || type === 'error' || type === 'reconnect';
    return opens ? [] : [{ rule: 'frames', what: 'the first frame is not `welcome`', evidence: [first] }];
  });
}

function parse(text: string): Record<string, unknown> {
  try {
    return JSON.parse(text) as Record<string, unknown>;
  } catch {
    return {};
  }
}
