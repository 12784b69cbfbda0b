export {
  type Campaign,
  type Cart,
  type Confirmed,
  Doorbuster,
  DoorbusterError,
  type Extended,
  type Redeemed,
  type Refunded,
  type Released,
  type ReservationName,
  type ServerOptions,
  type Validated,
} from './api.js';
export {
  type PayLinkCheck,
  verifyPayLink,
  verifyWebhook,
  WebhookError,
  type WebhookHeaders,
} from './verify.js';
