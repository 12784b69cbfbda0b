import { Operator } from '../harness/clients.js';
import { fuzz } from '../harness/fuzz.js';
import { sharedService } from '../harness/service.js';

const service = await sharedService();
const product = await new Operator(service.url).openCampaign({ total_limit: null, hold_seconds: 900, max_qty: 5 });
fuzz(service, product, 75);
