// The hooks of Artillery's virtual users: they make identities, keep values of responses, and report to the tally.
import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { remoteTally } from '../ipc.mjs';
import { outcomeOf } from '../tally.mjs';
import { follow } from './follower.mjs';

const facts = JSON.parse(readFileSync(String(process.env.DOORBUSTER_LOADTEST_FACTS), 'utf8'));
const tell = remoteTally(facts.port);

/** The values of a response that later steps of the user need, in `vars`. */
const REMEMBERED = [
  'status',
  'attestation',
  'expires_at',
  'ticket',
  'reservation_id',
  'poll_after_seconds',
  'position',
];
/** Outcomes with a reservation for the user. */
const PROMISES = ['200 completed', '200 promoted', '201 redeemed', '201 reserved'];
/** Final statuses: nothing changes after them. */
const ENDS = ['redeemed', 'released', 'expired', 'left', 'closed', 'not_queued'];

let arrived = 0;

/**
 * The state that the hooks keep for a user. Artillery adds fields of its own.
 * @typedef {object} Vars
 * @property {number} number
 * @property {string} user
 * @property {string} device
 * @property {string} first the key of the first checkout
 * @property {string} key
 * @property {string} serviceKey
 * @property {string} status
 * @property {number} asked
 * @property {number} poll_after_seconds
 * @property {string} attestation
 * @property {string | null} code
 * @property {string} [promisedAs] the reservation that was last sent to the tally
 * @property {string} [forged]
 * @property {string} [guess]
 * @property {number} [burstBegan]
 * @property {number} [accepted]
 * @property {number} heardAt
 * @property {boolean} [hasDeparted]
 *
 * @typedef {{ name: string, results: { ok: boolean, expected: unknown, got: unknown }[] }} Expectations of Artillery's
 *   plugin `expect`
 * @typedef {{ vars: Vars, expectations?: Expectations[] }} Context
 * @typedef {import('../scenario.js').Request & { sentAt: number }} Request
 * @typedef {{ statusCode: number, body: unknown }} Response
 * @typedef {{ code?: string, data?: Record<string, unknown> }} Body
 *
 * @typedef {(context: Context, events: unknown, done: () => void) => void} StepHook
 * @typedef {(request: Request, context: Context, events: unknown, done: () => void) => void} RequestHook
 */

/** Makes a user with a device and an idempotency key. @type {StepHook} */
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
  // Until a response names another one.
  vars.poll_after_seconds = 1;
  const codes = facts.codes ?? [];
  if (codes.length > 0) Object.assign(vars, codes[vars.number % codes.length]);
  done();
}

/** Sets a new key for this request. @type {RequestHook} */
export function newKey(_request, context, _events, done) {
  context.vars.key = randomUUID();
  done();
}

/** Sets the user's first key again. @type {RequestHook} */
export function firstKey(_request, context, _events, done) {
  context.vars.key = context.vars.first;
  done();
}

/** The same as a step: starts the user's next checkout. @type {StepHook} */
export function takesNewKey(context, _events, done) {
  context.vars.key = randomUUID();
  done();
}

/** @type {RequestHook} */
export function sends(request, context, _events, done) {
  request.sentAt = performance.now();
  context.vars.burstBegan ??= request.sentAt;
  tell.sent(request.name);
  done();
}

/**
 * @param {Request} request
 * @param {Response} response
 * @param {Context} context
 * @param {unknown} _events
 * @param {() => void} done
 */
export function hears(request, response, context, _events, done) {
  const { vars } = context;
  const body = counted(request, response, vars);
  const data = body?.data;
  if (data && !request.forgets) {
    const remembered = REMEMBERED.filter((name) => name in data);
    Object.assign(vars, Object.fromEntries(remembered.map((name) => [name, data[name]])));
  }
  vars.code = body?.code ?? null;
  if (request.counts) vars.accepted = (vars.accepted ?? 0) + (response.statusCode < 300 ? 1 : 0);
  vars.heardAt = performance.now();
  done();
}

/**
 * Counts a response to a user whose script keeps its values itself, as the files in Artillery's own format do.
 * @param {Request} request
 * @param {Response} response
 * @param {Context} context
 * @param {unknown} _events
 * @param {() => void} done
 */
export function watches(request, response, { vars }, _events, done) {
  counted(request, response, vars);
  done();
}

/**
 * Counts a response and the reservation in it.
 * @param {Request} request
 * @param {Response} response
 * @param {Vars} vars
 * @returns {Body | null}
 */
function counted(request, response, vars) {
  const body = parsed(response.body);
  const outcome = outcomeOf(response.statusCode, body);
  tell.answered(request.name, outcome, performance.now() - request.sentAt);
  const reservation = body?.data?.reservation_id;
  if (PROMISES.includes(outcome) && typeof reservation === 'string' && vars.promisedAs !== reservation) {
    vars.promisedAs = reservation;
    const asked = new URL(request.url).searchParams;
    const { product_id = request.product ?? facts.product, user_id = asked.get('user_id') ?? vars.user } =
      request.json ?? {};
    tell.promised(String(product_id), String(user_id), reservation);
  }
  return body;
}

/**
 * A request without a response ends its user.
 * @param {{ code?: string, message?: string }} error
 * @param {Request} request
 * @param {Context} context
 * @param {unknown} _events
 * @param {() => void} done
 */
export function misses(error, request, context, _events, done) {
  tell.broken(request.name, String(error?.code ?? error?.message ?? error).slice(0, 80));
  departs(context, _events, done);
}

/** Reports what the script of the user expected and did not get. @type {StepHook} */
export function reportsExpectations({ expectations = [] }, _events, done) {
  for (const { name, results } of expectations) {
    for (const { ok, expected, got } of results) if (!ok) tell.fault(`${name}: expected ${expected}, got ${got}`);
  }
  done();
}

/** @type {StepHook} */
export function departs({ vars }, _events, done) {
  if (!vars.hasDeparted) tell.departed();
  vars.hasDeparted = true;
  done();
}

/** @param {unknown} body @returns {Body | null} */
function parsed(body) {
  try {
    return JSON.parse(String(body));
  } catch {
    return null;
  }
}

// Conditions of steps (`ifTrue`), which read the user's state.
export const hasUnit = (/** @type {Vars} */ vars) => vars.status === 'completed' || vars.status === 'promoted';
export const isWaiting = (/** @type {Vars} */ vars) => vars.status === 'queued';
export const isPaid = (/** @type {Vars} */ vars) => vars.status === 'redeemed';

/**
 * For users who poll until their status is final (`whileTrue`).
 * @param {Context} context
 * @param {(goesOn: boolean) => void} next
 */
export function storyGoesOn(context, next) {
  context.vars.asked += 1;
  next(!ENDS.includes(context.vars.status) && context.vars.asked < facts.patience);
}

/**
 * Ends the loop of a user whose status is final, or who has polled as often as the script says (`whileTrue`).
 * @param {{ vars: { status?: string, polls?: number | string, $loopCount?: number } }} context
 * @param {(goesOn: boolean) => void} next
 */
export function pollsOn({ vars: { status = '', polls = 0, $loopCount = 0 } }, next) {
  next(['queued', 'promoted', 'completed'].includes(status) && $loopCount < Number(polls));
}

/** Reports a user whose status is not final after the last poll. @type {StepHook} */
export function expectsEnd(context, _events, done) {
  const { user, status } = context.vars;
  if (!ENDS.includes(status))
    tell.fault(`${user} still had the status "${status}" after asking ${context.vars.asked} times`);
  done();
}

/**
 * A device may have 20 checkouts in any second. Reports a burst that got more, however long the machine took for it.
 * @type {StepHook}
 */
export function expectsQuota(context, _events, done) {
  const { heardAt, burstBegan = heardAt, accepted = 0, device } = context.vars;
  const seconds = Math.max(1, Math.ceil((heardAt - burstBegan) / 1000));
  if (accepted > 20 * seconds) tell.fault(`${device} got ${accepted} checkouts through within ${seconds} s`);
  done();
}

/**
 * Runs a shopper with the typed client and its socket. Some pay when promoted, the others release the unit.
 * @param {Context} context
 */
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

/** A token with one character changed. @type {StepHook} */
export function forgesToken(context, _events, done) {
  const { attestation } = context.vars;
  const at = attestation.length - 5;
  context.vars.forged = `${attestation.slice(0, at)}${attestation[at] === 'A' ? 'B' : 'A'}${attestation.slice(at + 1)}`;
  done();
}

/** A code that was never issued. @type {StepHook} */
export function guessesCode(context, _events, done) {
  context.vars.guess = `GUESS${randomUUID().replaceAll('-', '').slice(0, 12).toUpperCase()}`;
  done();
}
