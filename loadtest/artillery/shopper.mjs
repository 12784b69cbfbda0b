// The hooks of Artillery's virtual users: who they are, what they remember of their answers, and that all of it is told.
import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { outcomeOf } from '../tally.mjs';
import { teller } from '../wire.mjs';
import { follow } from './follower.mjs';

const facts = JSON.parse(readFileSync(String(process.env.DOORBUSTER_LOADTEST_FACTS), 'utf8'));
const tell = teller(facts.port);

/** What of an answer a user goes by later on, in `vars`. */
const REMEMBERED = [
  'status',
  'attestation',
  'expires_at',
  'ticket',
  'reservation_id',
  'poll_after_seconds',
  'position',
];
/** Standings in which nothing happens any more. */
const ENDS = ['redeemed', 'released', 'expired', 'left', 'closed', 'not_queued'];

let arrived = 0;

/** A person with a device and a key for his wish. */
export function arrives(context, _events, done) {
  const { vars } = context;
  vars.number = arrived;
  arrived += 1;
  vars.user = `u-${facts.run}-${vars.number}`;
  vars.device = `d-${facts.run}-${vars.number}`;
  vars.first = randomUUID();
  vars.key = vars.first;
  vars.serviceKey = facts.serviceKey;
  vars.status = '';
  vars.asked = 0;
  // Until he is told another.
  vars.poll_after_seconds = 1;
  const codes = facts.codes ?? [];
  if (codes.length > 0) Object.assign(vars, codes[vars.number % codes.length]);
  done();
}

/** A key of its own for this request. */
export function newKey(_request, context, _events, done) {
  context.vars.key = randomUUID();
  done();
}

/** The key of his first wish again. */
export function firstKey(_request, context, _events, done) {
  context.vars.key = context.vars.first;
  done();
}

/** The same as a step: his next wish. */
export function takesNewKey(context, _events, done) {
  context.vars.key = randomUUID();
  done();
}

export function sends(request, context, _events, done) {
  request.sentAt = performance.now();
  context.vars.burstBegan ??= request.sentAt;
  tell.sent(request.name);
  done();
}

export function hears(request, response, context, _events, done) {
  const ms = performance.now() - request.sentAt;
  const body = parsed(response.body);
  const outcome = outcomeOf(response.statusCode, body);
  tell.answered(request.name, outcome, ms);
  const { vars } = context;
  const data = body?.data;
  if (data && !request.forgets) for (const name of REMEMBERED) if (name in data) vars[name] = data[name];
  vars.code = body?.code ?? null;
  if (
    outcome === '200 completed' ||
    outcome === '200 promoted' ||
    outcome === '201 redeemed' ||
    outcome === '201 reserved'
  ) {
    if (typeof data.reservation_id === 'string' && vars.promisedAs !== data.reservation_id) {
      vars.promisedAs = data.reservation_id;
      const { product_id = request.product, user_id = vars.user } = request.json ?? {};
      tell.promised(product_id ?? facts.product, user_id, data.reservation_id);
    }
  }
  if (request.counts) vars.accepted = (vars.accepted ?? 0) + (response.statusCode < 300 ? 1 : 0);
  vars.heardAt = performance.now();
  done();
}

/** A request without an answer ends its user's story. */
export function misses(error, request, context, _events, done) {
  tell.broken(request.name, String(error?.code ?? error?.message ?? error).slice(0, 80));
  departs(context, _events, done);
}

export function departs({ vars }, _events, done) {
  if (!vars.hasDeparted) tell.departed();
  vars.hasDeparted = true;
  done();
}

/** @param {unknown} body */
function parsed(body) {
  try {
    return JSON.parse(String(body));
  } catch {
    return null;
  }
}

// Conditions of steps (`ifTrue`), on what the user remembers.
export const hasUnit = (vars) => vars.status === 'completed' || vars.status === 'promoted';
export const isWaiting = (vars) => vars.status === 'queued';
export const isPaid = (vars) => vars.status === 'redeemed';

/** For whoever asks until his story is over (`whileTrue`). */
export function storyGoesOn(context, next) {
  context.vars.asked += 1;
  next(!ENDS.includes(context.vars.status) && context.vars.asked < facts.patience);
}

/** Nobody may be left standing. */
export function expectsEnd(context, _events, done) {
  const { user, status } = context.vars;
  if (!ENDS.includes(status)) tell.fault(`${user} was still told "${status}" after asking ${context.vars.asked} times`);
  done();
}

/** A device has 20 in any second: within a burst, however long the machine took for it, no more. */
export function expectsQuota(context, _events, done) {
  const { burstBegan, heardAt, accepted = 0, device } = context.vars;
  const seconds = Math.max(1, Math.ceil((heardAt - burstBegan) / 1000));
  if (accepted > 20 * seconds) tell.fault(`${device} got ${accepted} checkouts through within ${seconds} s`);
  done();
}

/** A whole story with the typed client and its socket. Some pay at their turn, the others give their unit back. */
export async function followsTheLine(context) {
  const { user, number } = context.vars;
  await follow({
    user,
    product: facts.product,
    target: facts.target,
    serviceKey: facts.serviceKey,
    tell,
    pays: number % facts.payingEach === 0,
    thinkMs: facts.thinkMs,
    patienceMs: facts.patienceMs,
  });
}

/** A token with one character changed. */
export function forgesToken(context, _events, done) {
  const { attestation } = context.vars;
  const at = attestation.length - 5;
  context.vars.forged = `${attestation.slice(0, at)}${attestation[at] === 'A' ? 'B' : 'A'}${attestation.slice(at + 1)}`;
  done();
}

/** A code that was never issued. */
export function guessesCode(context, _events, done) {
  context.vars.guess = `GUESS${randomUUID().replaceAll('-', '').slice(0, 12).toUpperCase()}`;
  done();
}
