"""Views: an order enqueues its receipt in the same transaction."""

from django.db import transaction
from django.http import HttpRequest, JsonResponse

from shop.models import Order
from shop.tasks import send_receipt


def order(request: HttpRequest, customer: str) -> JsonResponse:
    with transaction.atomic():
        made = Order.objects.create(customer=customer)
        result = send_receipt.enqueue(made.id)
        if customer == "nobody":
            transaction.set_rollback(True)  # neither the order nor the job has ever existed
    return JsonResponse({"receipt": result.id}, status=202)


def receipt(request: HttpRequest, id: str) -> JsonResponse:
    result = send_receipt.get_result(id)
    return JsonResponse({"status": result.status, "text": result.return_value if result.is_finished else None})
