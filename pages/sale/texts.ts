/** Every text of the page. A language that lacks one does not compile. */
export type Texts = {
  loading: string;
  opensIn: string;
  opensAt: string;
  open: string;
  openDetail: string;
  endsAt: string;
  buy: string;
  again: string;
  trying: string;
  tryingDetail: string;
  notYet: string;
  paused: string;
  pausedDetail: string;
  ended: string;
  endedDetail: string;
  soldOut: string;
  soldOutDetail: string;
  inLine: string;
  inLineDetail: string;
  yourPlace: string;
  of: string;
  wait: string;
  way: string;
  leave: string;
  leaveSure: string;
  otherDevice: string;
  yourTurn: string;
  gotOne: string;
  payDetail: string;
  payBefore: string;
  timeLeft: string;
  timeUp: string;
  nothingToPay: string;
  order: string;
  code: string;
  giveBack: string;
  giveBackSure: string;
  paid: string;
  paidDetail: string;
  released: string;
  releasedDetail: string;
  expired: string;
  expiredDetail: string;
  left: string;
  leftDetail: string;
  closed: string;
  closedDetail: string;
  live: string;
  polling: string;
  offline: string;
  retry: string;
  sound: string;
  languages: string;
  moved: string;
  minute: string;
  problems: {
    sold_out: string;
    waiting_room_full: string;
    campaign_ended: string;
    campaign_paused: string;
    campaign_not_found: string;
    campaign_not_started: string;
    already_redeemed: string;
    rate_limited: string;
    blocked: string;
    challenge_required: string;
    unauthorized: string;
    unreachable: string;
    temporarily_unavailable: string;
    code_required: string;
    ticket_invalid: string;
    other: string;
  };
};

const en: Texts = {
  loading: 'One moment…',
  opensIn: 'The sale opens in',
  opensAt: 'Opening: {time}. Stay here; the button wakes up by itself.',
  open: 'The sale is on',
  openDetail: 'One press is enough. You get one, or a place in line.',
  endsAt: 'End: {time}.',
  buy: 'Get one now',
  again: 'Try again',
  trying: 'Getting one for you…',
  tryingDetail: 'You can leave this page open. We keep trying.',
  notYet: 'Not open yet',
  paused: 'The sale is paused',
  pausedDetail: 'Places and reservations are kept. It goes on here by itself.',
  ended: 'The sale is over',
  endedDetail: 'Thank you for coming.',
  soldOut: 'Sold out',
  soldOutDetail: 'Everything is taken. If something comes back, you can try again.',
  inLine: 'You are in line',
  inLineDetail: 'Keep this page open. As soon as one is free, it is yours; you need not press anything.',
  yourPlace: 'Your place',
  of: 'of {size} waiting',
  wait: 'About {minutes} min.',
  way: 'Your way through the line',
  leave: 'Leave the line',
  leaveSure: 'Leave the line? Your place goes to the next one.',
  otherDevice: 'You checked out on another device. Continue there.',
  yourTurn: 'It is your turn!',
  gotOne: 'You got one!',
  payDetail: 'It is reserved for you. Pay in the shop before the time is up.',
  payBefore: 'Pay before {time}.',
  timeLeft: 'Time left to pay',
  timeUp: 'The time is up. Checking…',
  nothingToPay: 'It is yours. There is nothing to pay.',
  order: 'Order',
  code: 'Your code',
  giveBack: 'Give it back',
  giveBackSure: 'Give it back? The next one in line gets it.',
  paid: 'Paid. It is yours!',
  paidDetail: 'You can close this page.',
  released: 'You gave it back',
  releasedDetail: 'Your reservation has ended and was given to the next one.',
  expired: 'The time to pay is over',
  expiredDetail: 'Your reservation was given to the next one. You can line up again.',
  left: 'You left the line',
  leftDetail: 'You can line up again, at its end.',
  closed: 'The line is closed',
  closedDetail: 'No more units can come back, so the line is closed. We are sorry.',
  live: 'Connected: news comes at once.',
  polling: 'Slow connection: we look every few seconds. Your place is safe.',
  offline: 'No connection. Your place is safe; we go on as soon as you are back.',
  retry: 'Busy right now. We keep trying; you need not press again.',
  sound: 'Sound and vibration when it is my turn',
  languages: 'Language',
  moved: 'Place {position} of {size}',
  minute: '{seconds} seconds left',
  problems: {
    sold_out: 'Everything is taken at the moment.',
    waiting_room_full: 'The line is full. Try again in a while.',
    campaign_ended: 'The sale is over.',
    campaign_paused: 'The sale is paused. Try again in a moment.',
    campaign_not_found: 'There is no such sale. Check the address.',
    campaign_not_started: 'The sale has not started yet.',
    already_redeemed: 'You have one already, perhaps from another device.',
    rate_limited: 'That was too often. Wait a moment.',
    blocked: 'This device or account cannot take part at the moment.',
    challenge_required: 'We could not make sure that you are a person. Try again.',
    unauthorized: 'Please sign in at the shop and come back.',
    unreachable: 'We cannot reach the shop. Check your connection; nothing is lost.',
    temporarily_unavailable: 'The shop does not answer at the moment. Nothing is lost; try again.',
    code_required: 'This offer needs a personal code. Use it in the shop.',
    ticket_invalid: 'Your place could not be found again. Please try again.',
    other: 'Something went wrong. Please try again.',
  },
};

const id: Texts = {
  loading: 'Sebentar…',
  opensIn: 'Promo dimulai dalam',
  opensAt: 'Mulai {time}. Tetap di halaman ini; tombolnya akan aktif sendiri.',
  open: 'Promo sedang berlangsung',
  openDetail: 'Cukup tekan sekali. Anda mendapat satu, atau tempat di antrean.',
  endsAt: 'Berakhir {time}.',
  buy: 'Ambil sekarang',
  again: 'Coba lagi',
  trying: 'Sedang mengambilkan untuk Anda…',
  tryingDetail: 'Biarkan halaman ini terbuka. Kami terus mencoba.',
  notYet: 'Belum dibuka',
  paused: 'Promo dijeda',
  pausedDetail: 'Tempat dan pesanan tetap tersimpan. Halaman ini berlanjut sendiri.',
  ended: 'Promo telah berakhir',
  endedDetail: 'Terima kasih sudah datang.',
  soldOut: 'Habis',
  soldOutDetail: 'Semua sudah diambil. Jika ada yang kembali, Anda bisa mencoba lagi.',
  inLine: 'Anda dalam antrean',
  inLineDetail: 'Biarkan halaman ini terbuka. Begitu ada yang tersedia, itu milik Anda tanpa menekan apa pun.',
  yourPlace: 'Nomor antrean Anda',
  of: 'dari {size} yang menunggu',
  wait: 'Sekitar {minutes} menit.',
  way: 'Perjalanan Anda di antrean',
  leave: 'Keluar dari antrean',
  leaveSure: 'Keluar dari antrean? Tempat Anda diberikan ke orang berikutnya.',
  otherDevice: 'Anda memesan di perangkat lain. Lanjutkan di sana.',
  yourTurn: 'Sekarang giliran Anda!',
  gotOne: 'Anda mendapatkannya!',
  payDetail: 'Sudah dipesan untuk Anda. Bayar di toko sebelum waktunya habis.',
  payBefore: 'Bayar sebelum {time}.',
  timeLeft: 'Sisa waktu membayar',
  timeUp: 'Waktu habis. Memeriksa…',
  nothingToPay: 'Sudah menjadi milik Anda. Tidak ada yang perlu dibayar.',
  order: 'Pesanan',
  code: 'Kode Anda',
  giveBack: 'Kembalikan',
  giveBackSure: 'Kembalikan? Orang berikutnya dalam antrean akan mendapatkannya.',
  paid: 'Lunas. Ini milik Anda!',
  paidDetail: 'Anda boleh menutup halaman ini.',
  released: 'Sudah dikembalikan',
  releasedDetail: 'Pesanan Anda berakhir dan diberikan ke orang berikutnya.',
  expired: 'Waktu membayar sudah habis',
  expiredDetail: 'Pesanan Anda diberikan ke orang berikutnya. Anda bisa mengantre lagi.',
  left: 'Anda keluar dari antrean',
  leftDetail: 'Anda bisa mengantre lagi dari belakang.',
  closed: 'Antrean ditutup',
  closedDetail: 'Tidak ada lagi yang bisa kembali, jadi tidak ada yang menunggu sia-sia. Mohon maaf.',
  live: 'Terhubung: kabar datang seketika.',
  polling: 'Koneksi lambat: kami memeriksa setiap beberapa detik. Tempat Anda aman.',
  offline: 'Tidak ada koneksi. Tempat Anda aman; kami lanjutkan begitu Anda kembali.',
  retry: 'Sedang ramai. Kami terus mencoba; tidak perlu menekan lagi.',
  sound: 'Suara dan getar saat giliran saya',
  languages: 'Bahasa',
  moved: 'Nomor {position} dari {size}',
  minute: 'Sisa {seconds} detik',
  problems: {
    sold_out: 'Saat ini semua sudah diambil.',
    waiting_room_full: 'Antrean penuh. Coba lagi nanti.',
    campaign_ended: 'Promo telah berakhir.',
    campaign_paused: 'Promo dijeda. Coba lagi sebentar lagi.',
    campaign_not_found: 'Promo ini tidak ada. Periksa alamatnya.',
    campaign_not_started: 'Promo belum dimulai.',
    already_redeemed: 'Anda sudah punya satu, mungkin dari perangkat lain.',
    rate_limited: 'Terlalu sering. Tunggu sebentar.',
    blocked: 'Perangkat atau akun ini belum bisa ikut saat ini.',
    challenge_required: 'Kami tidak dapat memastikan Anda manusia. Coba lagi.',
    unauthorized: 'Silakan masuk di toko lalu kembali.',
    unreachable: 'Toko tidak dapat dihubungi. Periksa koneksi Anda; tidak ada yang hilang.',
    temporarily_unavailable: 'Toko belum menjawab. Tidak ada yang hilang; coba lagi.',
    code_required: 'Penawaran ini memerlukan kode pribadi. Gunakan di toko.',
    ticket_invalid: 'Tempat Anda tidak ditemukan lagi. Silakan coba lagi.',
    other: 'Ada yang salah. Silakan coba lagi.',
  },
};

const zh: Texts = {
  loading: '请稍候…',
  opensIn: '距离开抢还有',
  opensAt: '{time} 开始。请留在本页,按钮会自动启用。',
  open: '抢购进行中',
  openDetail: '按一次即可:直接抢到,或进入排队。',
  endsAt: '{time} 结束。',
  buy: '立即抢购',
  again: '再试一次',
  trying: '正在为您抢购…',
  tryingDetail: '请保持本页打开,我们会继续尝试。',
  notYet: '尚未开始',
  paused: '抢购已暂停',
  pausedDetail: '您的位置和预留都会保留,恢复后本页自动继续。',
  ended: '抢购已结束',
  endedDetail: '感谢您的参与。',
  soldOut: '已售罄',
  soldOutDetail: '目前全部被抢完。如有退回,您可以再试。',
  inLine: '您正在排队',
  inLineDetail: '请保持本页打开。一有空出的名额就归您,无需再按。',
  yourPlace: '您的位置',
  of: '共 {size} 人等待',
  wait: '大约 {minutes} 分钟。',
  way: '您的排队进度',
  leave: '退出排队',
  leaveSure: '确定退出排队?您的位置将让给下一位。',
  otherDevice: '您是在另一台设备上下单的。请在那台设备上继续。',
  yourTurn: '轮到您了!',
  gotOne: '抢到了!',
  payDetail: '已为您预留。请在时间结束前到商店付款。',
  payBefore: '请在 {time} 前付款。',
  timeLeft: '剩余付款时间',
  timeUp: '时间已到,正在确认…',
  nothingToPay: '已归您所有,无需付款。',
  order: '订单号',
  code: '您的兑换码',
  giveBack: '放弃',
  giveBackSure: '确定放弃?它将给排队的下一位。',
  paid: '已付款,归您了!',
  paidDetail: '您可以关闭本页。',
  released: '您已放弃',
  releasedDetail: '您的预留已结束,并给了下一位。',
  expired: '付款时间已过',
  expiredDetail: '您的预留已给下一位。您可以重新排队。',
  left: '您已退出排队',
  leftDetail: '您可以从队尾重新排队。',
  closed: '排队已关闭',
  closedDetail: '不会再有名额退回,为免大家空等,排队已关闭。非常抱歉。',
  live: '已连接:消息会立即送达。',
  polling: '连接较慢:我们每隔几秒查看一次。您的位置是安全的。',
  offline: '没有网络。您的位置是安全的,恢复后自动继续。',
  retry: '目前繁忙,我们会继续尝试,无需再按。',
  sound: '轮到我时用声音和振动提醒',
  languages: '语言',
  moved: '第 {position} 位,共 {size} 人',
  minute: '还剩 {seconds} 秒',
  problems: {
    sold_out: '目前全部被抢完。',
    waiting_room_full: '排队人数已满,请稍后再试。',
    campaign_ended: '抢购已结束。',
    campaign_paused: '抢购已暂停,请稍后再试。',
    campaign_not_found: '没有这个抢购活动,请检查网址。',
    campaign_not_started: '抢购尚未开始。',
    already_redeemed: '您已经有一份了,可能是在其他设备上抢到的。',
    rate_limited: '操作过于频繁,请稍候。',
    blocked: '此设备或账号目前无法参与。',
    challenge_required: '无法确认您是真人,请再试一次。',
    unauthorized: '请先在商店登录,然后再回来。',
    unreachable: '无法连接商店。请检查网络;您的进度不会丢失。',
    temporarily_unavailable: '商店暂时没有响应。您的进度不会丢失,请再试。',
    code_required: '此优惠需要个人兑换码,请在商店中使用。',
    ticket_invalid: '找不到您原来的位置,请再试一次。',
    other: '出了点问题,请再试一次。',
  },
};

export const LANGUAGES = {
  en: { name: 'English', texts: en },
  id: { name: 'Bahasa Indonesia', texts: id },
  zh: { name: '中文', texts: zh },
} as const;
export type Language = keyof typeof LANGUAGES;

/** What the address asks for, else what the browser prefers, else English. */
export function languageOf(asked: string | null, preferred: readonly string[]): Language {
  const wanted = [asked ?? '', ...preferred].map((tag) => tag.toLowerCase().split('-')[0] ?? '');
  return (wanted.find((tag) => Object.hasOwn(LANGUAGES, tag)) ?? 'en') as Language;
}

/** Puts values into `{name}`. */
export function fill(text: string, values: Record<string, string | number>): string {
  return text.replace(/\{(\w+)\}/g, (_, name: string) => String(values[name] ?? ''));
}
