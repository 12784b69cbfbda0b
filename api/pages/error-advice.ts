import type { ErrorCode } from '../../shared/errors/catalogue.js';

/**
 * What operators can do about an error, and the codes with which it is confused. Codes that operators neither cause nor
 * change are left out; what clients do about a code is in the catalogue.
 */
export const ADVICE: Partial<Record<ErrorCode, { operator?: string; see?: readonly ErrorCode[] }>> = {
  sold_out: {
    operator:
      'Add units on the page of the campaign. With a waiting room, units that are not paid go to the next person in line.',
    see: ['waiting_room_full', 'campaign_ended', 'already_redeemed'],
  },
  waiting_room_full: {
    operator: 'Raise `waiting_room.max_size` of the campaign. People who are refused are not in the line.',
    see: ['sold_out', 'rate_limited'],
  },
  campaign_not_started: {
    operator: 'The sale opens by itself at `starts_at`. PATCH the campaign to open it earlier.',
    see: ['campaign_paused', 'campaign_not_found'],
  },
  campaign_paused: {
    operator: 'Resume the campaign on its page. Places and reservations are kept meanwhile.',
    see: ['campaign_ended', 'temporarily_unavailable'],
  },
  campaign_ended: {
    operator:
      'Reservations that were made before the end can still be paid in time. A closed campaign is not opened again.',
    see: ['campaign_paused', 'sold_out'],
  },
  campaign_not_found: {
    operator: 'Check `product_id` in the shop. A draft is not public until it is published.',
    see: ['campaign_not_started', 'not_found'],
  },
  campaign_conflict: {
    operator: 'Read the campaign again: another operator, its schedule or an action has changed it.',
    see: ['campaign_exists'],
  },
  already_redeemed: {
    operator: '`per_user_limit` says how many units a user may have. The search for people shows what this user has.',
    see: ['duplicate_request', 'sold_out'],
  },
  duplicate_request: { see: ['idempotency_key_reused', 'already_redeemed'] },
  idempotency_key_reused: { see: ['duplicate_request'] },
  attestation_invalid: { see: ['attestation_expired', 'ticket_invalid'] },
  attestation_expired: { see: ['attestation_invalid'] },
  ticket_invalid: { see: ['unauthorized', 'attestation_invalid'] },
  unauthorized: {
    operator:
      'Keys of services and operators are made on the operator’s page. A revoked key is refused within seconds.',
    see: ['forbidden', 'ticket_invalid'],
  },
  forbidden: {
    operator: 'Give the key or the person the role that the call needs.',
    see: ['unauthorized', 'origin_not_allowed'],
  },
  origin_not_allowed: {
    operator: 'Set `SHOP_ORIGINS` to the origins of the shop’s pages, and restart the API.',
    see: ['forbidden'],
  },
  blocked: {
    operator: 'The list of bans says why, and until when. Lift the ban there if it met the wrong people.',
    see: ['rate_limited', 'challenge_required'],
  },
  challenge_required: {
    operator: 'The rules of the campaign (`risk`, `attestation_level`) ask for it. A lower level asks fewer people.',
    see: ['verification_required', 'blocked'],
  },
  verification_required: { see: ['challenge_required', 'audience_mismatch'] },
  audience_mismatch: {
    operator: 'The `audience` of the campaign says who may take part.',
    see: ['verification_required', 'blocked'],
  },
  rate_limited: {
    operator: 'The `limits` of the campaign count by user, device and network (docs/threats.md).',
    see: ['blocked', 'temporarily_unavailable'],
  },
  code_not_found: {
    operator: 'Check that the import has ended, and that the code belongs to this installation.',
    see: ['code_not_usable', 'campaign_not_found'],
  },
  code_not_usable: {
    operator:
      'The campaign hides why, so that codes cannot be guessed (`uniform_refusals`). The attempts have the reason.',
    see: ['code_not_found', 'already_redeemed'],
  },
  not_combinable: {
    operator: '`stacking` of both campaigns says which codes combine.',
    see: ['already_redeemed'],
  },
  reservation_not_found: { see: ['reservation_released', 'order_ambiguous'] },
  reservation_released: {
    operator: 'The terms of the campaign say whether a payment after that takes a free unit again. If not, refund it.',
    see: ['reservation_voided', 'reservation_refunded'],
  },
  reservation_redeemed: { see: ['reservation_refunded', 'duplicate_request'] },
  reservation_refunded: { see: ['reservation_released'] },
  reservation_voided: {
    operator: 'The database refused the reservation. The log names the rule (docs/runbook.md).',
    see: ['reservation_released'],
  },
  stock_insufficient: { see: ['campaign_conflict'] },
  temporarily_unavailable: {
    operator: 'See `/readyz`: it names the engine or the limit. What was promised is kept (docs/runbook.md).',
    see: ['campaign_paused', 'region_unavailable', 'rate_limited'],
  },
  region_unavailable: {
    operator: 'See `/readyz`, which has a check for each region (docs/regions.md).',
    see: ['temporarily_unavailable'],
  },
  internal_error: {
    operator: 'Find `instance` in the log, and report the lines around it.',
    see: ['temporarily_unavailable'],
  },
};
