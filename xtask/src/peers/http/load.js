// Runs in k6: repeats one GET, and prints k6's own counts as one line of JSON.
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
  // The passes of this rate are the failed requests.
  const said = { requests: requests.count, per_second: requests.rate, errors: failed.passes };
  return { stdout: `${JSON.stringify(said)}\n` };
}
