import type { ProductId, ReservationId, UserId } from '../domain/ids.js';
import { CallBatcher } from '../redis/call-batcher.js';
import { saleKeys } from '../redis/keys.js';
import { decided, notQueued } from './recall.js';
import type { SaleCalls } from './sale-calls.js';
import {
  type HeartbeatOutcome,
  heartbeatScript,
  type LeaveOutcome,
  leaveScript,
  type MaintainLineOutcome,
  maintainLineScript,
  type NoteElsewhereOutcome,
  noteElsewhereScript,
  type PositionsOutcome,
  type PromoteOutcome,
  positionsScript,
  promoteScript,
  type ShopperStatusOutcome,
} from './scripts/line.js';
import { type LineHeadOutcome, lineHeadScript } from './scripts/line-head.js';
import { MAX_STANDINGS, readStandings, type StandingReply, type StandingRequest } from './standings.js';

/** Computes positions from the line numbers that scripts return in divided campaigns (shared/buckets/places.ts). */
export type LinePlaces = {
  isDivided(product: ProductId): boolean;
  ofStanding(product: ProductId, standing: Promise<ShopperStatusOutcome>): Promise<ShopperStatusOutcome>;
  ofPositions(product: ProductId, positions: Promise<PositionsOutcome>): Promise<PositionsOutcome>;
};

/** An operator who removes a user from a line. */
export type RemovedBy = { actor: string; requestId: string; reason: string };

/**
 * The lines of campaigns, and the standings of their users. Every method throws EngineUnavailable when Redis cannot be
 * used.
 */
export class WaitingLine {
  readonly #standings = new CallBatcher<StandingRequest, StandingReply>({
    maxBatch: MAX_STANDINGS,
    send: (product, requests) => readStandings(this.calls.scripts, product as ProductId, requests),
  });
  readonly #sightings = new CallBatcher<UserId, HeartbeatOutcome>({
    maxBatch: MAX_STANDINGS,
    send: async (product, users) => {
      const outcome = await this.heartbeat(
        product as ProductId,
        users.map((user) => [user, 0]),
      );
      return users.map(() => outcome);
    },
  });

  /** Positions in lines of divided campaigns; null = scripts return the positions. */
  places: LinePlaces | null = null;

  constructor(readonly calls: SaleCalls) {}

  /** @param upTo the last line number to promote; null = no limit, but no user of a bucket */
  promote(product: ProductId, limit: number, upTo: number | null = null): Promise<PromoteOutcome> {
    const args = { limit, up_to: upTo };
    return this.calls.keep(this.calls.scripts.run(promoteScript, { keys: saleKeys(product), args }));
  }

  /**
   * Ends the user's place.
   * @param place reservation id of the place; null = the current place of the user
   * @param by the operator who removes the user, for the audit log; null = the user leaves
   */
  leave(
    product: ProductId,
    user: UserId,
    place: ReservationId | null,
    trace: string,
    by: RemovedBy | null = null,
  ): Promise<LeaveOutcome> {
    const args = {
      ...{ user, place: place ?? '', trace },
      ...{ actor: by?.actor ?? '', request_id: by?.requestId ?? '', reason: by?.reason ?? '' },
    };
    return decided(
      () =>
        this.calls.keepAcknowledged(
          product,
          { reservation: place ?? '', user },
          this.calls.scripts.run(leaveScript, { keys: saleKeys(product), args }),
        ),
      (recall, pass) => recall.person(product, user, pass),
      () => ({ kind: 'not_waiting', isBucket: false }),
      this.calls.recall,
    );
  }

  /**
   * Maintains the line (lua/maintain_line.lua).
   * @param groupWaitMs time for which free units are kept for a group
   * @param settleMs time for which no unit must have been obtainable before places are closed
   */
  maintain(product: ProductId, limit: number, groupWaitMs: number, settleMs: number): Promise<MaintainLineOutcome> {
    return this.calls.keep(
      this.calls.scripts.run(maintainLineScript, {
        keys: saleKeys(product),
        args: { limit, group_wait_ms: groupWaitMs, settle_ms: settleMs },
      }),
    );
  }

  /**
   * Notes what other regions have of a campaign that they sell as well (lua/note_elsewhere.lua).
   * @param what `units` = some are free or may become so; `none` = no region has any
   */
  noteElsewhere(product: ProductId, what: 'units' | 'none', keepMs: number): Promise<NoteElsewhereOutcome> {
    return this.calls.scripts.run(noteElsewhereScript, { keys: saleKeys(product), args: { what, keep_ms: keepMs } });
  }

  /** Records heartbeats. @param seen at most 1000 users, each with the ms since they were seen */
  heartbeat(product: ProductId, seen: readonly (readonly [UserId, number])[]): Promise<HeartbeatOutcome> {
    return this.calls.scripts.run(heartbeatScript, {
      keys: saleKeys(product),
      each: seen.map(([user, ageMs]) => ({ user, age_ms: ageMs })),
    });
  }

  /**
   * Records that a user is present now. Users of the same campaign who are recorded meanwhile share a call.
   * @returns whether a user of this call, not necessarily this one, got their position back
   */
  async seen(product: ProductId, user: UserId): Promise<boolean> {
    const outcome = await this.#sightings.run(product, user);
    return outcome.kind === 'attended' && outcome.returned > 0;
  }

  /**
   * Reads the standing of a user. Reads of the same campaign that arrive meanwhile share a call.
   * @param place reservation id of a ticket. Without a unit of this user under it, and for null, the user's last place
   *   or unit
   *   is returned
   */
  standing(product: ProductId, user: UserId, place: ReservationId | null = null): Promise<ShopperStatusOutcome> {
    const standing = decided<StandingReply>(
      () => this.#standings.run(product, { user, place }),
      (recall, pass) => recall.person(product, user, pass),
      notQueued,
      this.calls.recall,
    );
    return this.places?.isDivided(product) ? this.places.ofStanding(product, standing) : standing;
  }

  /** Returns the positions of users. @param users at most 1000 */
  positions(product: ProductId, users: readonly UserId[]): Promise<PositionsOutcome> {
    const each = users.map((user) => ({ user }));
    const positions = this.calls.scripts.run(positionsScript, { keys: saleKeys(product), each });
    return this.places?.isDivided(product) ? this.places.ofPositions(product, positions) : positions;
  }

  /** Returns the head of the line, and why no user is promoted. @param limit users, at most MAX_LINE_HEAD */
  head(product: ProductId, limit: number): Promise<LineHeadOutcome> {
    return this.calls.scripts.run(lineHeadScript, { keys: saleKeys(product), args: { limit } });
  }
}
