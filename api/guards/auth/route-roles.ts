import type { Role } from '../../../shared/domain/role.js';
import type { RouteContract } from '../../http/route.js';

/**
 * The least role for each call of operators, by `operationId`. Calls that show or change what belongs to users need
 * `support`, calls that change a sale `marketer`, and calls that affect the installation or its secrets `admin`. A call
 * that is missing here needs `admin`, and fails a test.
 */
const ROLE_OF_OPERATION: Readonly<Record<string, Role>> = {
  getOverview: 'viewer',
  listCampaigns: 'viewer',
  getCampaign: 'viewer',
  getCampaignStats: 'viewer',
  getCampaignHistory: 'viewer',
  getCampaignReport: 'viewer',
  readCampaignRegions: 'viewer',
  listRegionTransfers: 'viewer',
  listTermChanges: 'viewer',
  getCodeJob: 'viewer',

  getLine: 'support',
  listDuplicatePayments: 'support',
  listPaymentEvents: 'support',
  settlePaymentEvent: 'support',
  findRedemptions: 'support',
  listRedemptions: 'support',
  getUserTimeline: 'support',
  exportUser: 'support',
  releaseForUser: 'support',
  refundForUser: 'support',
  resendEvents: 'support',
  removeFromLine: 'support',
  listBans: 'support',
  createBan: 'support',
  deleteBan: 'support',

  createCampaign: 'marketer',
  updateCampaign: 'marketer',
  openCampaign: 'marketer',
  pauseCampaign: 'marketer',
  resumeCampaign: 'marketer',
  closeCampaign: 'marketer',
  hideCampaign: 'marketer',
  unhideCampaign: 'marketer',
  changeStock: 'marketer',
  addCodes: 'marketer',
  exportCodes: 'marketer',

  eraseUser: 'admin',
  getErasure: 'admin',
  reconcileCampaign: 'admin',
  retryQueue: 'admin',
  getJobBoard: 'admin',
  getJobBoardPage: 'admin',
  getJobBoardFile: 'admin',
  createWebhook: 'admin',
  listWebhooks: 'admin',
  getWebhook: 'admin',
  updateWebhook: 'admin',
  deleteWebhook: 'admin',
  testWebhook: 'admin',
  listWebhookAttempts: 'admin',
  replayEvents: 'admin',
  createKey: 'admin',
  listKeys: 'admin',
  revokeKey: 'admin',
  listAuditEntries: 'admin',
  listSessions: 'admin',
  endSession: 'admin',
  giveRegionUnits: 'admin',
};

/** The least role for a call of operators; null = the table lacks it. */
export function roleOf({ operationId }: Pick<RouteContract, 'operationId'>): Role | null {
  return Object.hasOwn(ROLE_OF_OPERATION, operationId) ? (ROLE_OF_OPERATION[operationId] as Role) : null;
}
