// What k6 runs beside the others: one GET again and again, and its own counts as one line of JSON.
import http from "k6/http";

export const options = {
  vus: Number(__ENV.CLIENTS),
  duration: `${__ENV.SECONDS}s`,
  discardResponseBodies: true,
  insecureSkipTLSVerify: true,
  summaryTrendStats: ["med"],
};

export default function () {
  http.get(__ENV.TARGET);
}

export function handleSummary(data) {
  const requests = data.metrics.http_reqs.values;
  const failed = data.metrics.http_req_failed.values;
  // Of this rate, the passes are the requests that failed.
  const said = { requests: requests.count, per_second: requests.rate, errors: failed.passes };
  return { stdout: `${JSON.stringify(said)}\n` };
}
