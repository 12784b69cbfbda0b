import { appendEventsScript } from '../redis/append-events.js';
import { archiveScript, evictResponseScript, restoreUserScript } from './scripts/archive.js';
import {
  addCodesScript,
  loadCampaignScript,
  rejournalScript,
  restockScript,
  setStatusScript,
  updateTermsScript,
} from './scripts/campaign.js';
import { checkOrderClaimScript, checkRedeemableScript } from './scripts/checkout.js';
import { beginFillScript, beginHistoryScript, endFillScript, fillScript } from './scripts/fill.js';
import {
  expireScript,
  heartbeatScript,
  leaveScript,
  maintainLineScript,
  positionsScript,
  promoteScript,
  shopperStatusScript,
} from './scripts/line.js';
import { lineHeadScript } from './scripts/line-head.js';
import { refundScript, voidScript } from './scripts/payment.js';
import { reserveScript } from './scripts/reserve.js';
import { confirmScript, releaseScript } from './scripts/settlement.js';

/** Every script, for loading and for tests that compare headers with contracts. */
export const SALE_SCRIPTS = [
  reserveScript,
  confirmScript,
  releaseScript,
  refundScript,
  voidScript,
  expireScript,
  promoteScript,
  leaveScript,
  maintainLineScript,
  heartbeatScript,
  shopperStatusScript,
  positionsScript,
  loadCampaignScript,
  updateTermsScript,
  setStatusScript,
  restockScript,
  rejournalScript,
  addCodesScript,
  checkRedeemableScript,
  checkOrderClaimScript,
  lineHeadScript,
  archiveScript,
  restoreUserScript,
  evictResponseScript,
  beginFillScript,
  fillScript,
  endFillScript,
  beginHistoryScript,
  appendEventsScript,
] as const;
