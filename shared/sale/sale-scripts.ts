import { appendEventsScript } from '../redis/append-events.js';
import { archiveScript, evictResponseScript, restoreUserScript } from './scripts/archive.js';
import {
  bucketHeadsScript,
  bucketPlacesScript,
  drawNumbersScript,
  moveInScript,
  moveOutScript,
  sealScript,
} from './scripts/buckets.js';
import {
  addCodesScript,
  loadCampaignScript,
  restockScript,
  setStatusScript,
  updateTermsScript,
} from './scripts/campaign.js';
import { checkOrderClaimScript, checkRedeemableScript } from './scripts/checkout.js';
import { eraseUserScript } from './scripts/erase-user.js';
import {
  beginFillScript,
  beginHistoryScript,
  endFillScript,
  fillScript,
  keepInstallationScript,
} from './scripts/fill.js';
import { takeTokenScript } from './scripts/limits.js';
import {
  expireScript,
  heartbeatScript,
  leaveScript,
  maintainLineScript,
  noteElsewhereScript,
  positionsScript,
  promoteScript,
  shopperStatusScript,
} from './scripts/line.js';
import { lineHeadScript } from './scripts/line-head.js';
import { extendScript, refundScript, voidScript } from './scripts/payment.js';
import { readPromiseScript } from './scripts/promise.js';
import { reserveScript } from './scripts/reserve.js';
import { confirmScript, releaseScript } from './scripts/settlement.js';

/** Every script, for loading and for tests that compare headers with contracts. */
export const SALE_SCRIPTS = [
  reserveScript,
  takeTokenScript,
  confirmScript,
  releaseScript,
  extendScript,
  refundScript,
  voidScript,
  expireScript,
  promoteScript,
  leaveScript,
  maintainLineScript,
  noteElsewhereScript,
  heartbeatScript,
  shopperStatusScript,
  positionsScript,
  loadCampaignScript,
  updateTermsScript,
  setStatusScript,
  restockScript,
  addCodesScript,
  checkRedeemableScript,
  checkOrderClaimScript,
  readPromiseScript,
  lineHeadScript,
  archiveScript,
  restoreUserScript,
  eraseUserScript,
  evictResponseScript,
  beginFillScript,
  fillScript,
  endFillScript,
  beginHistoryScript,
  keepInstallationScript,
  appendEventsScript,
  sealScript,
  drawNumbersScript,
  moveOutScript,
  moveInScript,
  bucketHeadsScript,
  bucketPlacesScript,
] as const;
